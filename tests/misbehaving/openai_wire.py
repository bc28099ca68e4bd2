"""OpenAI's chat completions, as so many servers speak them, each in its own way."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.misbehaving.case import GOOD, Case, Expect
from tests.misbehaving.cases import EMPTY, LIMIT, ROME, WEATHER, WITHHELD_ALL, failed
from tests.models.server import DONE, USAGE, Answer, delta, event, replies, streams


class OpenAIWire:
    @property
    def done(self) -> bytes:
        return USAGE + DONE

    def text(self, text: str) -> bytes:
        return delta(text)

    def reasoning(self, text: str) -> bytes:
        return delta(None, reasoning_content=text)

    def calls(self, *calls: tuple[str, str, str]) -> bytes:
        return b"".join(part(number, *call) for number, call in enumerate(calls))

    def finish(self, reason: str) -> bytes:
        return delta(None, reason)

    def raw(self, data: bytes) -> bytes:
        return b"data: " + data + b"\n\n"

    def error(self, message: str) -> bytes:
        return event(error={"message": message, "code": 500})

    def refusal(self, message: str) -> object:
        return {"error": {"message": message, "type": "some_error"}}

    def results(self, request: dict[str, Any]) -> list[tuple[str, str]]:
        return [
            (message["tool_call_id"], message["content"])
            for message in request["messages"]
            if message["role"] == "tool"
        ]


def part(
    index: object = None, id: str | None = None, name: str | None = None, arguments: object = None, **more: Any
) -> bytes:
    """A fragment of a tool call; what is None is left out."""
    function = {key: value for key, value in (("name", name), ("arguments", arguments)) if value is not None}
    call = {key: value for key, value in (("index", index), ("id", id), ("function", function)) if value is not None}
    return delta(**more, tool_calls=[{"type": "function", **call}])


def text_of(raw: bytes) -> bytes:
    """A text as it stands between the quotes."""
    return b'data: {"choices": [{"delta": {"content": "%b"}}]}\n\n' % raw


def plain(message: dict[str, Any] | None, finish: str | None = "stop", **more: Any) -> Answer:
    """A server that does not stream, though it was asked to."""
    choice = {"index": 0, "finish_reason": finish, **({} if message is None else {"message": message}), **more}
    usage = {"prompt_tokens": 7, "completion_tokens": 3}
    return replies(200, {"id": "c", "object": "chat.completion", "choices": [choice], "usage": usage})


STOP = delta(None, "stop")
NICE = delta("Nice ") + delta("day.")
AGAIN = streams(NICE, STOP, DONE)
CALLED = Expect(calls=[WEATHER], told="sunny", requests=2)
OSLO = ("Weather", {"city": "Oslo"})
TOOLS = delta(None, "tool_calls") + USAGE + DONE


def says(name: str, *pieces: bytes, expect: Expect = Expect()) -> Case:  # noqa: B008
    return Case(name, lambda wire: [streams(*pieces)], expect)


def calls(name: str, *pieces: bytes, expect: Expect = CALLED) -> Case:
    return Case(name, lambda wire: [streams(*pieces, TOOLS), AGAIN], expect)


def answers(name: str, *given: Answer, expect: Expect = Expect()) -> Case:  # noqa: B008
    return Case(name, lambda wire: given, expect)


STREAMS: list[Case] = [
    says("no [DONE]", NICE, STOP),
    says("no finish_reason", NICE, DONE),
    says("no blank line at the end", NICE, STOP.rstrip()),
    says("cut off after its finish_reason", NICE, STOP, b'data: {"cho'),
    says("lines that end with CRLF", (NICE + STOP + DONE).replace(b"\n", b"\r\n")),
    says("no space after the colon", (NICE + STOP + DONE).replace(b"data: ", b"data:")),
    says("comments, ids, kinds", b": ping\n\nevent: chunk\nid: 1\nretry: 5\n", NICE, b": ping\n\n", STOP, DONE),
    says("data over two lines", (NICE + STOP).replace(b', "choices"', b'\ndata: , "choices"'), DONE),
    says("a byte order mark", b"\xef\xbb\xbf" + NICE, STOP, DONE),
    says("events without choices", event(choices=[]), event(choices=None), event(id="x"), NICE, STOP, DONE),
    says("a role, then nothing", delta("", role="assistant"), event(choices=[{"delta": None}]), NICE, STOP, DONE),
    says("nulls in place of fields", event(choices=[{"delta": {"content": None, "tool_calls": None}}]), NICE, STOP),
    says(
        "several choices",
        event(choices=[{"index": 1, "delta": {"content": "No"}}, {"index": 0, "delta": {"content": GOOD}}]),
        STOP,
    ),
    says("content in parts", delta([{"type": "text", "text": "Nice "}, {"type": "text", "text": "day."}]), STOP),  # type: ignore[arg-type]
    says("usage that is none", NICE, STOP, event(choices=[], usage="lots"), DONE),
    says("usage in every event", *(event(choices=[], usage={"prompt_tokens": 1}), NICE), STOP, DONE),
    says("the whole message once more", NICE, event(choices=[{"message": {"content": GOOD}, "finish_reason": "stop"}])),
    says("messages in place of deltas", event(choices=[{"message": {"content": GOOD}}]), STOP),
    says(
        "a broken character", b'data: {"choices": [{"delta": {"content": "\xff"}}]}\n\n', STOP, expect=Expect("\ufffd")
    ),
    says("half a surrogate", text_of(b"\\ud83d!"), STOP, expect=Expect("?!")),
    says("a bare tab in a text", text_of(b"a\tb"), STOP, expect=Expect("a\tb")),
    says("the end alone", DONE, expect=failed("no chat completion")),
    says("another end of an answer", NICE, delta(None, "eos_token"), DONE),
    says("the limit in another word", NICE, delta(None, "max_tokens"), expect=LIMIT),
    says("a server that gives up", NICE, delta(None, "error"), expect=failed("'error'", text=GOOD)),
    says("an error of another form", event(detail="out of memory"), expect=failed("out of memory")),
    says("an error as an object", event(object="error", message="no such model"), expect=failed("no such model")),
    says("an error without words", event(error={}), event(error=True), expect=failed("")),
    says("a refusal", delta(None, refusal="I "), delta(None, refusal="will not."), STOP, expect=Expect("I will not.")),
    says("reasoning", delta(None, reasoning="Hm."), NICE, STOP, expect=Expect(reasoning="Hm.")),
    says(
        "reasoning in both fields",
        delta(None, reasoning="Hm.", reasoning_content="Hm."),
        NICE,
        STOP,
        expect=Expect(reasoning="Hm."),
    ),
    says(
        "reasoning in parts",
        delta([{"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]}]),  # type: ignore[arg-type]
        delta([{"type": "text", "text": GOOD}]),  # type: ignore[arg-type]
        STOP,
        expect=Expect(reasoning="Hm."),
    ),
    says(
        "the old text", event(choices=[{"text": "Nice "}]), event(choices=[{"text": "day.", "finish_reason": "stop"}])
    ),
    says("events of another protocol", event(type="content_block_delta", delta={"text": "hi"}), expect=failed("")),
]

CALLS: list[Case] = [
    calls("a name in two parts", part(0, "c1", "Wea", ""), part(0, None, "ther", ROME)),
    calls("a name in two parts, nothing else", part(None, None, "Wea"), part(None, None, "ther", ROME)),
    calls("a name in each fragment", part(0, "c1", "Weather", '{"city":'), part(0, "c1", "Weather", ' "Rome"}')),
    calls("a name that grows", part(0, "c1", "Wea", ""), part(0, None, "Weather", ROME)),
    calls("an id in two parts", part(0, "call", "Weather", ""), part(0, "_1", None, ROME)),
    calls("an id in each fragment", part(0, "c1", "Weather", '{"city":'), part(0, "c1", None, ' "Rome"}')),
    calls("a new id in each fragment", part(0, "call_ab", "Weather", '{"city":'), part(0, "call_cd", None, ' "Rome"}')),
    calls("no id", part(0, None, "Weather", ROME)),
    calls("an empty id", part(0, "", "Weather", '{"city":'), part(0, "", "", ' "Rome"}')),
    calls("no index", part(None, "c1", "Weather", '{"city":'), part(None, None, None, ' "Rome"}')),
    calls("an index as text", part("0", "c1", "Weather", '{"city":'), part("0", None, None, ' "Rome"}')),
    calls("an index that counts fragments", part(0, "c1", "Weather", '{"city":'), part(1, None, None, ' "Rome"}')),
    calls(
        "one index for two calls",
        part(0, "c1", "Weather", ROME) + part(0, "c2", "Weather", '{"city": "Oslo"}'),
        expect=Expect(calls=[WEATHER, OSLO], told="sunny", requests=2),
    ),
    calls(
        "two calls by turns",
        part(0, "c1", "Weather", '{"city"') + part(1, "c2", "Weather", '{"city": '),
        part(0, None, None, ': "Rome"}') + part(1, None, None, '"Oslo"}'),
        expect=Expect(calls=[WEATHER, OSLO], told="sunny", requests=2),
    ),
    calls("arguments that grow", part(0, "c1", "Weather", '{"city"'), part(0, None, None, ROME)),
    calls(
        "arguments once more at the end",
        part(0, "c1", "Weather", '{"ci'),
        part(0, None, None, 'ty": "Rome"}'),
        part(0, None, None, ROME),
    ),
    calls(
        "an empty object, then the arguments",
        part(0, "c1", "Weather", "{}"),
        part(0, None, None, '{"city"'),
        part(0, None, None, ': "Rome"}'),
    ),
    calls("arguments as an object", part(0, "c1", "Weather", {"city": "Rome"})),
    calls("no arguments", part(0, "c1", "Weather"), expect=Expect(calls=[("Weather", {})], told="sunny", requests=2)),
    calls("empty calls beside it", part(), part(0, "c1", "Weather", ROME), part(1, "", "", "")),
    says("empty calls beside a text", part(0, "", "", ""), NICE, STOP),
    calls(
        "the old function_call",
        delta(None, function_call={"name": "Wea", "arguments": ""}),
        delta(None, function_call={"name": "ther"}),
        delta(None, "function_call", function_call={"arguments": ROME}),
    ),
    calls(
        "text beside a call",
        delta("Let me see."),
        part(0, "c1", "Weather", ROME),
        expect=Expect("Let me see.Nice day.", calls=[WEATHER], told="sunny", requests=2),
    ),
]

PLAIN: list[Case] = [
    answers("plain", plain({"role": "assistant", "content": GOOD})),
    answers("plain, no finish_reason", plain({"content": GOOD}, None)),
    answers("plain, empty", plain({"content": ""}), expect=EMPTY),
    answers("plain, null", plain({"content": None}), expect=EMPTY),
    answers("plain, empty, then good", plain({"content": ""}), plain({"content": GOOD}), expect=Expect(requests=2)),
    answers("plain, no choices", replies(200, {"choices": []}), expect=failed("no chat completion")),
    answers("plain, cut off at the limit", plain({"content": GOOD}, "length"), expect=LIMIT),
    answers("plain, <think>", plain({"content": "<think>Hm.</think>Nice day."}), expect=Expect(reasoning="Hm.")),
    answers("plain, reasoning", plain({"content": GOOD, "reasoning": "Hm."}), expect=Expect(reasoning="Hm.")),
    answers("plain, a refusal", plain({"content": None, "refusal": "I will not."}), expect=Expect("I will not.")),
    answers(
        "plain, filtered",
        plain({"content": ""}, "content_filter"),
        expect=WITHHELD_ALL,
    ),
    answers(
        "plain, a call",
        plain({"content": None, "tool_calls": [{"id": "c1", "function": {"name": "Weather", "arguments": ROME}}]}),
        plain({"content": GOOD}),
        expect=CALLED,
    ),
    answers(
        "plain, the old function_call",
        plain({"content": None, "function_call": {"name": "Weather", "arguments": ROME}}, "function_call"),
        plain({"content": GOOD}),
        expect=CALLED,
    ),
    answers("plain, the old text", plain(None, text=GOOD)),
    answers("plain, an error", replies(200, {"error": {"message": "overloaded"}}), expect=failed("overloaded")),
    answers("plain, half of it", replies(200, '{"choices": [{"mess'), expect=failed("no chat completion")),
    answers(
        "plain, an object a line",
        replies(200, NICE.replace(b"data: ", b"").decode()),
    ),
    answers(
        "plain, another protocol",
        replies(200, {"model": "m", "message": {"role": "assistant", "content": "hi"}, "done": True}),
        expect=failed("no chat completion"),
    ),
    answers(
        "a request that is filtered",
        replies(400, {"error": {"code": "content_filter", "message": "The prompt triggered the policy."}}),
        expect=WITHHELD_ALL,
    ),
]

CASES: Sequence[Case] = [*STREAMS, *CALLS, *PLAIN]
