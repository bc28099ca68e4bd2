"""A model server that fails in every way it can, by the whole path: a clear error, an end, and nothing lost."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.api.serving import serving
from tests.models.server import DONE, Answer, delta, event, replies, streams
from tests.stack import Stack, chat_workflow, free_port

KEY = "sk-the-products-own-key"
GOOD = streams(delta("Nice "), delta("day.", "stop"), DONE)


def install(stack: Stack, path: str, url: str, **options: Any) -> None:
    model = {
        "type": "@n8n/n8n-nodes-langchain.lmChatOpenAi",
        "typeVersion": 1.2,
        "parameters": {"model": "m-1", "options": {"baseURL": url, "maxRetries": 0, **options}},
    }
    stack.install(chat_workflow(path, model=model, agent={"options": {"maxIterations": 3}}))


def error_body(message: str) -> dict[str, Any]:
    return {"error": {"message": message, "type": "some_error"}}


def tool_call(name: str, arguments: str) -> bytes:
    call = {"index": 0, "id": "c1", "type": "function", "function": {"name": name, "arguments": arguments}}
    return delta(None, None, tool_calls=[call]) + delta(None, "tool_calls") + DONE


HALF = delta("Half an ") + delta("answ")
FAILURES: dict[str, tuple[Answer, str]] = {
    "401": (replies(401, error_body("no such user")), "401: no such user"),
    "403": (replies(403, error_body("not for you")), "403: not for you"),
    "404": (replies(404, error_body("the model m-1 does not exist")), "404: the model m-1 does not exist"),
    "429": (replies(429, error_body("slow down"), **{"Retry-After": "3600"}), "429: slow down"),
    "500": (replies(500, error_body("out of order")), "500: out of order"),
    "502 from a proxy": (replies(502, "<html><h1>Bad Gateway</h1></html>"), "502"),
    "garbage": (replies(200, "<html>It works!</html>"), "no chat completion"),
    "garbage as an event": (streams(b"data: {oops\n\n"), "no chat completion"),
    "an event of another kind": (streams(event(choices="none")), "no chat completion"),
    "an error inside the stream": (streams(event(error={"message": "overloaded"})), "overloaded"),
    "nothing at all": (streams(), "m-1"),
    "half a stream, cut": (streams(HALF, then="cut"), "ended early"),
    "half a stream, ended": (streams(HALF), "ended early"),
    "half a stream, then silence": (streams(HALF, then="hang"), "sent nothing for 0.3 s"),
    "half a stream, then an error": (streams(HALF, event(error={"message": "broke"})), "broke"),
    "silence": (streams(then="hang"), "sent nothing for 0.3 s"),
    "tool calls for ever": (streams(tool_call("Calculator", '{"input":"1+1"}')), "no answer after 3 model calls"),
}
CODES = {
    "tool calls for ever": ("too_many_iterations", 500),
    "half a stream, then silence": ("model_timed_out", 504),
    "silence": ("model_timed_out", 504),
}


def check_stream(lines: Sequence[dict[str, Any]], code: str, said: str) -> None:
    """Exactly one error, then exactly one end for what had begun, then nothing."""
    types = [line["type"] for line in lines]
    assert types.count("error") == 1 and types[-2:] == ["error", "end"]
    assert types.count("end") == max(1, types.count("begin"))
    assert [line["seq"] for line in lines] == list(range(len(lines)))
    error = lines[-2]
    assert error["code"] == code
    assert said in error["content"]
    assert error["metadata"]["nodeName"]


@pytest.mark.parametrize("case", FAILURES)
def test_a_failing_model(product: Stack, case: str) -> None:
    answer, said = FAILURES[case]
    code, status = CODES.get(case, ("model_failed", 502))
    path = "".join(c if c.isalnum() else "-" for c in f"failing {case}")
    with serving(GOOD, answer) as server:
        install(product, path, server.url, timeout=300)
        assert product.say(path, "Hello").text == "Nice day."
        before = product.remembered(path)
        assert before == [("user", "Hello"), ("assistant", "Nice day.")]

        streamed = product.say(path, "And now?")
        assert streamed.status == 200
        check_stream(streamed.lines, code, said)
        if case.startswith("half"):
            assert streamed.text == "Half an answ"

        plain = product.say(path, "And now?", Accept="application/json")
        assert (plain.status, plain.json["code"]) == (status, code)
        assert said in plain.json["message"]

        for reply in (streamed, plain):
            record = product.execution(reply.headers["x-execution-id"])
            assert (record["status"], record["error"]["code"]) == ("error", code)
            failed = [run for run in record["data"] if run["error"]]
            assert failed and all(run["node"] in ("Model", "AI Agent") for run in failed)
        assert product.remembered(path) == before
        assert len(json.dumps(server.requests[1]["messages"])) > len(json.dumps(server.requests[0]["messages"]))


def test_a_model_server_that_is_down(product: Stack) -> None:
    port = free_port()
    install(product, "down", f"http://127.0.0.1:{port}/v1")
    lines = product.say("down", "hello").lines
    assert [line["type"] for line in lines] == ["error", "end"]
    check_stream(lines, "model_failed", f"127.0.0.1:{port}")
    plain = product.say("down", "hello", Accept="application/json")
    assert (plain.status, plain.json["code"]) == (502, "model_failed")
    assert product.remembered("down") == []


def test_the_conversation_goes_on_after_a_failure(product: Stack) -> None:
    with serving(GOOD, replies(500, error_body("out of order")), GOOD) as server:
        install(product, "recovers", server.url)
        product.say("recovers", "one")
        assert product.say("recovers", "two").lines[-2]["type"] == "error"
        assert product.say("recovers", "three").text == "Nice day."
        said = [message["content"] for message in server.requests[-1]["messages"] if message["role"] == "user"]
    assert said == ["one", "three"]
    assert [text for role, text in product.remembered("recovers") if role == "user"] == ["one", "three"]


def test_a_failed_turn_lets_the_next_of_its_session_through(product: Stack) -> None:
    with serving(streams(HALF, then="hang"), GOOD) as server:
        install(product, "frees", server.url, timeout=300)
        with product.live("frees", "one") as first, product.live("frees", "two") as second:
            assert [chunk["type"] for chunk in first.chunks()][-2:] == ["error", "end"]
            assert second.text() == "Nice day."


@pytest.mark.parametrize(
    ("name", "arguments", "told"),
    [
        ("Calculator", '{"input":"1 / 0"}', "zero"),
        ("Calculator", '{"input":"rm -rf"}', "rm -rf"),
        ("Calculator", "{oops", "not a JSON object"),
        ("Calculator", '{"other":1}', "input"),
        ("Weather", "{}", "no tool named 'Weather'"),
    ],
)
def test_a_tool_that_fails_is_told_to_the_model(product: Stack, name: str, arguments: str, told: str) -> None:
    with serving(streams(tool_call(name, arguments)), GOOD) as server:
        path = "".join(c if c.isalnum() else "-" for c in f"told {told}")
        install(product, path, server.url)
        reply = product.say(path, "Compute!")
        assert reply.text == "Nice day."
        assert [line["type"] for line in reply.lines] == ["begin", "item", "item", "end"]
        result = server.requests[1]["messages"][-1]
    assert result["role"] == "tool"
    assert result["content"].startswith("Error: ") and told in result["content"]


def test_no_error_shows_the_key(redis_url: str, folder: Path) -> None:
    """Not even where the server's own message repeats it."""
    with serving(replies(401, error_body(f"Incorrect API key provided: {KEY}"))) as server:
        stack = Stack(folder, f"{redis_url}/8", {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": server.url})
        try:
            stack.start_api()
            worker = stack.start_worker()
            stack.wait_ready()
            install(stack, "keyed", server.url)
            reply = stack.say("keyed", "hello")
            record = stack.get(f"/api/v1/executions/{reply.headers['x-execution-id']}").body
            with stack.redis() as client:
                dump = [client.dump(key) for key in client.scan_iter("*")]
        finally:
            stack.stop()
    assert server.headers[0]["Authorization"] == f"Bearer {KEY}"
    check_stream(reply.lines, "model_failed", "Incorrect API key provided")
    assert KEY.encode() not in reply.body + record
    assert dump and not [value for value in dump if value and KEY.encode() in value]
    assert KEY not in worker.log.read_text()
