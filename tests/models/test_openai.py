"""The OpenAI adapter against a real server on loopback, good and bad."""

from __future__ import annotations

import asyncio
import base64
import socket
from collections.abc import Coroutine
from contextlib import aclosing
from typing import Any, TypeVar

import pytest

from convoq.contract.model import (
    AssistantMessage,
    CallDelta,
    Delta,
    Finish,
    Message,
    ModelSettings,
    SystemMessage,
    TextDelta,
    ToolCall,
    ToolMessage,
    ToolSpec,
    UserMessage,
)
from convoq.errors import ModelFailed, ModelTimedOut
from convoq.models.openai import OpenAIModel
from tests.models.server import (
    DONE,
    USAGE,
    Answer,
    ModelServer,
    delta,
    event,
    http_client,
    model_server,
    replies,
    streams,
)

T = TypeVar("T")
KEY = "sk-secret-0123456789"
HI: list[Message] = [UserMessage("hi")]
GOOD = streams(delta("Hel"), delta("lo"), delta(None, "stop"), USAGE, DONE)
ONCE = ModelSettings(max_retries=0)


def ask(
    *answers: Answer,
    messages: list[Message] = HI,
    tools: list[ToolSpec] = [],  # noqa: B006
    settings: ModelSettings = ONCE,
) -> tuple[list[Delta], ModelServer, ModelFailed | None]:
    """The deltas that came, the server, and the failure that ended them."""

    async def main() -> tuple[list[Delta], ModelServer, ModelFailed | None]:
        async with model_server(*answers) as server, http_client() as http:
            model = OpenAIModel(http, "m", server.url, KEY, backoff_s=0)
            deltas = []
            try:
                async for one in model.stream(messages, tools, settings):
                    deltas.append(one)
            except ModelFailed as error:
                return deltas, server, error
            return deltas, server, None

    return run(main())


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    async def bounded() -> T:
        async with asyncio.timeout(10):
            return await coroutine

    return asyncio.run(bounded())


def test_a_streamed_answer() -> None:
    deltas, _, failure = ask(GOOD)
    assert failure is None
    assert deltas == [TextDelta("Hel"), TextDelta("lo"), Finish("stop", 7, 3)]


def test_what_is_sent() -> None:
    messages: list[Message] = [
        SystemMessage("sys"),
        UserMessage("q"),
        AssistantMessage("", (ToolCall("c1", "calc", '{"input":"1"}'),)),
        ToolMessage("1", "c1", "calc"),
        AssistantMessage("one"),
        UserMessage("hi"),
    ]
    schema = {"type": "object", "properties": {"input": {"type": "string"}}}
    settings = ModelSettings(
        temperature=0.0,
        max_tokens=9,
        top_p=0.5,
        frequency_penalty=0.1,
        presence_penalty=0.2,
        response_format="json_object",
        reasoning_effort="low",
    )
    _, server, _ = ask(GOOD, messages=messages, tools=[ToolSpec("calc", "adds", schema)], settings=settings)
    assert server.headers[0]["Authorization"] == f"Bearer {KEY}"
    assert server.requests == [
        {
            "model": "m",
            "stream": True,
            "stream_options": {"include_usage": True},
            "messages": [
                {"role": "system", "content": "sys"},
                {"role": "user", "content": "q"},
                {
                    "role": "assistant",
                    "content": "",
                    "tool_calls": [
                        {"id": "c1", "type": "function", "function": {"name": "calc", "arguments": '{"input":"1"}'}}
                    ],
                },
                {"role": "tool", "tool_call_id": "c1", "content": "1"},
                {"role": "assistant", "content": "one"},
                {"role": "user", "content": "hi"},
            ],
            "tools": [{"type": "function", "function": {"name": "calc", "description": "adds", "parameters": schema}}],
            "temperature": 0.0,
            "max_tokens": 9,
            "top_p": 0.5,
            "frequency_penalty": 0.1,
            "presence_penalty": 0.2,
            "response_format": {"type": "json_object"},
            "reasoning_effort": "low",
        }
    ]


def test_what_is_not_set_is_not_sent() -> None:
    _, server, _ = ask(GOOD)
    assert set(server.requests[0]) == {"model", "messages", "stream", "stream_options"}


NO_KEY = {"error": {"message": f"Incorrect API key provided: {KEY}.", "type": "invalid_request_error"}}
LIMIT = {"error": {"message": "Rate limit reached"}}


@pytest.mark.parametrize(
    ("answer", "status", "said"),
    [
        (replies(401, NO_KEY), 401, "answered 401: Incorrect API key provided: …"),
        (replies(404, {"error": "model 'm' not found"}), 404, "answered 404: model 'm' not found"),
        (replies(422, {"detail": [{"loc": ["body"], "msg": "bad"}]}), 422, '"msg": "bad"'),
        (replies(429, LIMIT), 429, "answered 429: Rate limit reached"),
        (replies(429, LIMIT, **{"Retry-After": "3600"}), 429, "answered 429: Rate limit reached"),
        (replies(500, "x" * 5000), 500, "answered 500: xxx"),
        (replies(503, ""), 503, "answered 503: Service Unavailable"),
        (replies(302, "", Location="http://127.0.0.1:1/"), 302, "answered 302: Found"),
        (replies(200, "<html>Sign in</html>"), None, "no chat completion: '<html>Sign in</html>'"),
        (replies(200, "Hello"), None, "no chat completion: 'Hello'"),
        (replies(200, {"ok": True}), None, "no chat completion"),
        (replies(200, ""), None, "stream ended early"),
        (streams(delta("Hal")), None, "stream ended early"),
        (streams(delta("Hal"), then="cut"), None, "stream ended early"),
        (streams(then="cut"), None, "stream ended early"),
        (streams(delta("Hal"), b"data: oops\n\n"), None, "stream ended early"),
        (streams(delta("Hal"), *[b"data: oops\n\n"] * 10), None, "no chat completion: 'oops'"),
        (streams(delta("Hal"), event(error={"message": f"failed with {KEY}"})), None, "failed: failed with …"),
        (streams(b"data: " + b"x" * (1 << 20)), None, "larger than 1048576 bytes"),
    ],
)
def test_a_failing_server(answer: Answer, status: int | None, said: str) -> None:
    _, server, failure = ask(answer)
    assert failure is not None
    assert said in failure.message
    assert failure.message.startswith("model 'm' at 127.0.0.1:")
    assert failure.details.get("provider_status") == status
    assert KEY not in repr(failure.as_dict())
    assert len(failure.message) < 600
    assert len(server.requests) == 1


def test_text_that_came_before_a_failure_was_given() -> None:
    deltas, _, failure = ask(streams(delta("Hal"), then="cut"), settings=ModelSettings(max_retries=2))
    assert deltas == [TextDelta("Hal")]
    assert failure is not None


def test_a_stream_cut_after_its_finish_reason_is_whole() -> None:
    deltas, _, failure = ask(streams(delta("Hallo"), delta(None, "stop"), then="cut"))
    assert failure is None
    assert deltas == [TextDelta("Hallo"), Finish("stop", 0, 0)]


@pytest.mark.parametrize(
    "bad",
    [
        replies(500, "oops"),
        replies(503, ""),
        replies(429, LIMIT, **{"Retry-After": "0"}),
        replies(200, ""),
        streams(then="cut"),
    ],
)
def test_what_may_pass_is_tried_again(bad: Answer) -> None:
    deltas, server, failure = ask(bad, bad, GOOD, settings=ModelSettings(max_retries=2))
    assert failure is None
    assert len(server.requests) == 3
    assert deltas[0] == TextDelta("Hel")


@pytest.mark.parametrize(
    ("answer", "requests"),
    [
        (replies(500, "oops"), 3),
        (replies(401, NO_KEY), 1),
        (replies(400, LIMIT), 1),
        (replies(429, LIMIT, **{"Retry-After": "3600"}), 1),
        (streams(delta("Hal"), then="cut"), 1),
        (streams(event(error="no")), 1),
        (replies(200, "<html>"), 1),
    ],
)
def test_how_often_it_is_tried(answer: Answer, requests: int) -> None:
    _, server, failure = ask(answer, settings=ModelSettings(max_retries=2))
    assert failure is not None
    assert len(server.requests) == requests


def test_a_silent_server_times_out() -> None:
    hangs = streams(delta("Hal"), then="hang")
    deltas, _, failure = ask(hangs, settings=ModelSettings(between_chunks_timeout_s=0.1))
    assert deltas == [TextDelta("Hal")]
    assert isinstance(failure, ModelTimedOut) and "sent nothing for 0.1 s in the middle" in failure.message


def test_a_server_that_leaves_the_connection_open_after_its_finish_reason() -> None:
    hangs = streams(delta("Hallo"), delta(None, "stop"), then="hang")
    deltas, _, failure = ask(hangs, settings=ModelSettings(between_chunks_timeout_s=0.1))
    assert failure is None
    assert deltas == [TextDelta("Hallo"), Finish("stop", 0, 0)]


def test_a_server_that_hangs_after_done() -> None:
    deltas, _, failure = ask(streams(delta("Hallo"), DONE, then="hang"))
    assert failure is None
    assert deltas == [TextDelta("Hallo"), Finish("stop", 0, 0)]


def test_a_connection_is_used_again() -> None:
    async def main() -> int:
        async with model_server(GOOD) as server, http_client() as http:
            model = OpenAIModel(http, "m", server.url)
            for _ in range(5):
                assert [one async for one in model.stream(HI, [], ONCE)]
            assert "Authorization" not in server.headers[0]
            return len(server.connections)

    assert run(main()) == 1


def test_cancelling_closes_the_connection() -> None:
    async def main() -> None:
        async with model_server(streams(delta("Hal"), then="hang")) as server, http_client() as http:
            seen = asyncio.Event()

            async def consume() -> None:
                async for _ in OpenAIModel(http, "m", server.url).stream(HI, [], ONCE):
                    seen.set()

            task = asyncio.create_task(consume())
            await seen.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await server.gone.wait()

    run(main())


def test_closing_the_generator_closes_the_connection() -> None:
    async def main() -> None:
        async with model_server(streams(delta("Hal"), then="hang")) as server, http_client() as http:
            async with aclosing(OpenAIModel(http, "m", server.url).stream(HI, [], ONCE)) as deltas:
                assert await anext(deltas) == TextDelta("Hal")
            await server.gone.wait()

    run(main())


@pytest.mark.parametrize(
    ("user", "shown"),
    [
        ("ada:s3cret-word", "ada:s3cret-word"),
        ("ada:s3cret%2Fw%C3%B6rd%40", "ada:s3cret/wörd@"),
        ("ada", "ada:"),
        (":s3cret-word", ":s3cret-word"),
    ],
)
def test_a_base_url_with_user_and_password(user: str, shown: str) -> None:
    """They are sent in place of the key, and no word of the server's can tell them."""

    async def main() -> tuple[ModelServer, ModelFailed]:
        secret = base64.b64encode(shown.encode()).decode()
        words = f"no {shown.partition(':')[2]} {user.partition(':')[2]} {secret} here"
        async with model_server(GOOD, replies(401, {"error": {"message": words}})) as server, http_client() as http:
            model = OpenAIModel(http, "m", server.url.replace("://", f"://{user}@"), KEY)
            assert [one async for one in model.stream(HI, [], ONCE)][-1] == Finish("stop", 7, 3)
            with pytest.raises(ModelFailed) as raised:
                async for _ in model.stream(HI, [], ONCE):
                    pass
            return server, raised.value

    server, failure = run(main())
    scheme, _, sent = server.headers[0]["Authorization"].partition(" ")
    assert (scheme, base64.b64decode(sent).decode()) == ("Basic", shown)
    told = repr(failure.as_dict())
    assert "no " in told and "here" in told
    assert "s3cret" not in told and sent not in told and "ada" not in told


def test_reasoning_goes_back_where_it_came_from() -> None:
    """Between tool calls, to a server that told of it, in the field in which it did; never to another."""
    messages: list[Message] = [
        UserMessage("q"),
        AssistantMessage("", (ToolCall("c1", "calc", "{}"),), "Hm."),
        ToolMessage("1", "c1", "calc"),
    ]

    async def main() -> list[dict[str, Any]]:
        thinks = streams(delta(None, reasoning="Hm."), delta("ok", "stop"), DONE)
        async with model_server(thinks, GOOD) as server, http_client() as http:
            for model in (OpenAIModel(http, "m", server.url), OpenAIModel(http, "m", server.url)):
                for _ in range(2):
                    assert [one async for one in model.stream(messages, [], ONCE)]
            return [request["messages"][1] for request in server.requests]

    first, second, *other = run(main())
    assert "reasoning" not in first
    assert second["reasoning"] == "Hm."
    assert not [message for message in other if "reasoning" in message]


def test_what_a_server_adds_to_a_call_goes_back_with_it() -> None:
    """Google's signatures, without which its next answer is a 400."""
    signed = {"google": {"thought_signature": "c2lnbmVk"}}
    call = {"function": {"name": "calc", "arguments": "{}"}, "extra_content": signed, "type": "function"}

    async def main() -> tuple[ToolCall, list[dict[str, Any]]]:
        calls = streams(delta(tool_calls=[call]), delta(None, "tool_calls"), DONE)
        async with model_server(calls, GOOD) as server, http_client() as http:
            model = OpenAIModel(http, "m", server.url)
            first, _ = [one async for one in model.stream(HI, [], ONCE)]
            assert isinstance(first, CallDelta)
            other = ToolCall("c2", "calc", "{}")
            results = [ToolMessage("1", one.id, "calc") for one in (first.call, other)]
            messages: list[Message] = [*HI, AssistantMessage("", (first.call, other)), *results]
            assert [one async for one in model.stream(messages, [], ONCE)]
            return first.call, server.requests[1]["messages"][1]["tool_calls"]

    asked, (one, two) = run(main())
    assert (one["id"], one["extra_content"]) == (asked.id, signed)
    assert asked.id and "extra_content" not in two


def test_earlier_calls_of_a_server_that_wants_reasoning_have_an_empty_one() -> None:
    async def main() -> list[dict[str, Any]]:
        async with model_server(GOOD) as server, http_client() as http:
            model = OpenAIModel(http, "m", server.url, reasoning_field="reasoning_content")
            messages: list[Message] = [
                AssistantMessage("", (ToolCall("c1", "calc", "{}"),)),
                ToolMessage("1", "c1", "calc"),
                AssistantMessage("one"),
                *HI,
            ]
            assert [one async for one in model.stream(messages, [], ONCE)]
            found: list[dict[str, Any]] = server.requests[0]["messages"]
            return found

    asked, _, said, _ = run(main())
    assert asked["reasoning_content"] == ""
    assert "reasoning_content" not in said


def fails(base_url: str) -> ModelFailed:
    async def main() -> ModelFailed:
        async with http_client() as http:
            with pytest.raises(ModelFailed) as raised:
                async for _ in OpenAIModel(http, "m", base_url, KEY, backoff_s=0).stream(HI, [], ONCE):
                    pass
            return raised.value

    return run(main())


def test_a_server_that_is_not_there() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))  # bound, but nobody listens
        failure = fails(f"http://127.0.0.1:{unused.getsockname()[1]}/v1")
    assert "cannot be reached" in failure.message


def test_a_host_without_an_address() -> None:
    assert "model 'm' at nowhere.invalid cannot be reached" in fails("http://nowhere.invalid/v1").message


def test_a_server_without_tls() -> None:
    async def main() -> str:
        async with model_server(GOOD) as server, http_client() as http:
            model = OpenAIModel(http, "m", server.url.replace("http:", "https:"), KEY)
            with pytest.raises(ModelFailed) as raised:
                async for _ in model.stream(HI, [], ONCE):
                    pass
            return raised.value.message

    assert "cannot be reached" in run(main())


def test_a_server_that_does_not_speak_http() -> None:
    async def main() -> str:
        async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(b"SSH-2.0-OpenSSH\r\n\r\n")
            await writer.drain()
            writer.close()

        server = await asyncio.start_server(talk, "127.0.0.1", 0)
        async with server, http_client() as http:
            model = OpenAIModel(http, "m", f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", KEY)
            with pytest.raises(ModelFailed) as raised:
                async for _ in model.stream(HI, [], ONCE):
                    pass
            return raised.value.message

    assert "did not answer in HTTP" in run(main())


@pytest.mark.parametrize("base_url", ["", "127.0.0.1:8000/v1", "ftp://host/v1", "http://", "http://a:b:c/", f"{KEY}"])
def test_a_base_url_that_is_none(base_url: str) -> None:
    with pytest.raises(ModelFailed, match=r"base URL.*(is not an http|port is not a number)") as raised:
        OpenAIModel(lambda: pytest.fail("not used"), "m", base_url)
    assert KEY not in raised.value.message


def test_a_base_url_may_end_with_a_slash() -> None:
    async def main() -> int:
        async with model_server(GOOD) as server, http_client() as http:
            model = OpenAIModel(http, "m", f" {server.url}/ ")
            return len([one async for one in model.stream(HI, [], ONCE)])

    assert run(main()) == 3
