"""What servers send as an answer, byte by byte."""

from __future__ import annotations

import json

import pytest

from convoq.contract.model import CallDelta, Delta, Finish, TextDelta
from convoq.models.openai_wire import MAX_ANSWER_BYTES, Answer, BadAnswer, EndedEarly, ProviderError
from convoq.models.sse import MAX_EVENT_BYTES, EventParser, TooLarge
from tests.models.server import DONE, USAGE, delta, event


def read(*chunks: bytes) -> list[Delta]:
    answer = Answer()
    deltas: list[Delta] = []
    for chunk in chunks:
        deltas += answer.feed(chunk)
        if answer.done:
            return [*deltas, *answer.finish()]
    deltas += answer.close()
    return [*deltas, *answer.finish()]


def text(deltas: list[Delta]) -> str:
    return "".join(delta.text for delta in deltas if isinstance(delta, TextDelta))


def calls(deltas: list[Delta]) -> list[tuple[str, str, str]]:
    return [(d.call.id, d.call.name, d.call.arguments) for d in deltas if isinstance(d, CallDelta)]


def test_a_stream() -> None:
    stream = delta("", role="assistant") + delta("Hel") + delta("lo") + delta(None, "stop") + USAGE + DONE
    assert read(stream) == [TextDelta("Hel"), TextDelta("lo"), Finish("stop", 7, 3)]


@pytest.mark.parametrize("newline", [b"\n", b"\r\n"], ids=["LF", "CRLF"])
def test_a_chunk_may_be_cut_anywhere(newline: bytes) -> None:
    stream = (
        delta("Grüße, 世界 ")
        + b": keep-alive\n\n"
        + b"event: x\nid: 1\nretry: 5\n"
        + delta("👋")
        + delta("", "stop")
        + DONE
    )
    stream = stream.replace(b"\n", newline)
    for cut in range(1, len(stream)):
        assert text(read(stream[:cut], stream[cut:])) == "Grüße, 世界 👋", cut
    assert text(read(*(bytes([byte]) for byte in stream))) == "Grüße, 世界 👋"


@pytest.mark.parametrize(
    "stream",
    [
        b'data:{"choices":[{"delta":{"content":"ok"},"finish_reason":"stop"}]}\n\ndata:[DONE]\n\n',
        b'data: {"choices":\ndata: [{"delta":{"content":"ok"},"finish_reason":"stop"}]}\n\n',
        delta("ok") + delta(None, "stop"),
        delta("ok") + delta(None, "stop").rstrip(),
        delta("ok") + DONE,
        delta("ok") + b"data: [DONE]",
        b"\n\n: hello\n\n" + event(choices=[]) + event(id="ping") + delta("ok", "stop"),
        event(choices=[{"index": 1, "delta": {"content": "other"}}, {"index": 0, "delta": {"content": "ok"}}]) + DONE,
        event(choices=[{"delta": {"content": [{"type": "text", "text": "o"}, {"type": "text", "text": "k"}]}}]) + DONE,
        event(choices=[{"index": 0, "delta": {"content": None, "reasoning_content": "hm"}}]) + delta("ok") + DONE,
        json.dumps({"choices": [{"message": {"content": "ok"}, "finish_reason": "stop"}]}, indent=1).encode(),
        json.dumps({"choices": [{"message": {"content": "ok"}}]}).encode(),
    ],
    ids=[
        "no space after the colon",
        "data over two lines",
        "no [DONE]",
        "no [DONE] and no blank line",
        "no finish_reason",
        "[DONE] without a blank line",
        "comments, empty choices, unknown objects",
        "several choices",
        "content in parts",
        "reasoning beside the text",
        "plain JSON",
        "plain JSON without a finish_reason",
    ],
)
def test_servers_differ(stream: bytes) -> None:
    deltas = read(stream)
    assert text(deltas) == "ok"
    assert isinstance(deltas[-1], Finish)
    assert text(read(*(stream[i : i + 7] for i in range(0, len(stream), 7)))) == "ok"


def call(id: str | None = None, name: str | None = None, arguments: object = None, index: int | None = None) -> bytes:
    function = {key: value for key, value in (("name", name), ("arguments", arguments)) if value is not None}
    part = {key: value for key, value in (("id", id), ("index", index)) if value is not None}
    return delta(tool_calls=[{**part, "type": "function", "function": function}])


@pytest.mark.parametrize(
    ("stream", "expected"),
    [
        (
            call("a", "add", "", 0) + call(arguments='{"x"', index=0) + call("b", "sub", "{", 1)
            + call(arguments=": 1}", index=0) + call(arguments="}", index=1),
            [("a", "add", '{"x": 1}'), ("b", "sub", "{}")],
        ),
        (call("a", "add", "{}", 0) + call("b", "sub", "{}", 0), [("a", "add", "{}"), ("b", "sub", "{}")]),
        (
            call("a", "add", '{"x"') + call(arguments=":1}") + call("b", "sub", "{}"),
            [("a", "add", '{"x":1}'), ("b", "sub", "{}")],
        ),
        (call("a", "add", '{"x"') + call("a", "add", ":1}"), [("a", "add", '{"x":1}')]),
        (call("a", "add", index=0), [("a", "add", "{}")]),
        (call("a", "add", "", 0), [("a", "add", "{}")]),
        (call("a", "add", {"x": 1}, 0), [("a", "add", '{"x":1}')]),
        (call("a", "add", "nonsense", 0), [("a", "add", "nonsense")]),
    ],
    ids=[
        "fragments of two calls",
        "the same index twice",
        "no index",
        "no index, the id repeated",
        "no arguments",
        "empty arguments",
        "arguments as an object",
        "arguments that are not JSON",
    ],
)  # fmt: skip
def test_tool_calls_are_put_together(stream: bytes, expected: list[tuple[str, str, str]]) -> None:
    assert calls(read(stream + delta(None, "tool_calls") + DONE)) == expected


def test_a_plain_answer_may_hold_calls() -> None:
    message = {"content": None, "tool_calls": [{"id": "a", "function": {"name": "add", "arguments": "{}"}}]}
    assert calls(read(json.dumps({"choices": [{"message": message}]}).encode())) == [("a", "add", "{}")]


@pytest.mark.parametrize(
    ("stream", "error", "message"),
    [
        (delta("Hal"), EndedEarly, ""),
        (delta("Hal") + b'data: {"choices": [{"del', EndedEarly, ""),
        (b"", EndedEarly, ""),
        (b"\n\n", EndedEarly, ""),
        (b"<html><body>502 Bad Gateway</body></html>", BadAnswer, "<html><body>502"),
        (b"Hello", BadAnswer, "Hello"),
        (DONE, BadAnswer, "[DONE]"),
        (b"data: hello\n\n", BadAnswer, "hello"),
        (b'data: {"choices": 3}\n\n', BadAnswer, '"choices": 3'),
        (b'{"choices": [{"mess', BadAnswer, '{"choices"'),
        (b'{"ok": true}', BadAnswer, '{"ok": true}'),
        (b"[]", BadAnswer, "[]"),
        (delta("Hal") + event(error={"message": "out of memory", "code": 500}), ProviderError, "out of memory"),
        (event(error="overloaded"), ProviderError, "overloaded"),
        (event(object="error", message="no such model", code=404), ProviderError, "no such model"),
        (json.dumps({"error": {"message": "bad"}}).encode(), ProviderError, "bad"),
    ],
)
def test_what_is_no_answer(stream: bytes, error: type[Exception], message: str) -> None:
    with pytest.raises(error) as raised:
        read(stream)
    assert message in str(raised.value)


def test_sizes_are_bounded() -> None:
    with pytest.raises(TooLarge, match=f"larger than {MAX_EVENT_BYTES} bytes"):
        read(b"data: " + b"x" * MAX_EVENT_BYTES)
    parser = EventParser()
    with pytest.raises(TooLarge):
        for _ in range(MAX_EVENT_BYTES // 1000 + 1):
            parser.feed(b"data: " + b"x" * 1000 + b"\n")
    answer = Answer()
    comment = b":" + b"x" * 500_000 + b"\n"
    with pytest.raises(TooLarge, match=f"larger than {MAX_ANSWER_BYTES} bytes"):
        for _ in range(MAX_ANSWER_BYTES // len(comment) + 1):
            list(answer.feed(comment))
