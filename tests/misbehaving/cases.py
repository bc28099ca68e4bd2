"""Behaviours that any protocol has."""

from __future__ import annotations

from collections.abc import Callable

from convoq.models.calls import MAX_CALLS
from convoq.models.hearing import WITHHELD
from tests.misbehaving.case import GOOD, Case, Expect, Wire
from tests.models.server import Answer, replies, silence, streams


def good(wire: Wire) -> Answer:
    return whole(wire, "Nice ", "day.")


def whole(wire: Wire, *texts: str, reason: str = "stop") -> Answer:
    return streams(*map(wire.text, texts), wire.finish(reason), wire.done)


def calling(wire: Wire, *calls: tuple[str, str, str], reason: str = "tool_calls") -> Answer:
    return streams(wire.calls(*calls), wire.finish(reason), wire.done)


def refusing(status: int, **headers: str) -> Callable[[Wire], list[Answer]]:
    return lambda wire: [replies(status, wire.refusal("not today"), **headers)]


def unreadable(wire: Wire, count: int) -> Answer:
    bad = [wire.raw(b'{"cho') for _ in range(count)]
    return streams(wire.text("Nice "), *bad, wire.text("day."), wire.finish("stop"), wire.done)


def one_by_one(data: bytes) -> list[bytes]:
    return [bytes([byte]) for byte in data]


EMPTY = Expect(error="empty_answer", said="answered nothing", requests=2, logged="a model gave no answer")
LIMIT = Expect(cut="length", note="reached its limit of tokens", logged="an answer was cut off")
WITHHELD_ALL = Expect(WITHHELD, cut="content_filter", note="withheld", logged="an answer was cut off", remembered=False)
WEATHER = ("Weather", {"city": "Rome"})
SILENCE_S = 0.2
ROME = '{"city": "Rome"}'


def failed(said: str, *, text: str = "") -> Expect:
    return Expect(text, error="model_failed", said=said, logged="a model gave no answer")


COMMON: list[Case] = [
    Case("a good answer", lambda wire: [good(wire)]),
    # nothing for an answer
    Case("an empty answer, then a good one", lambda wire: [whole(wire), good(wire)], Expect(requests=2)),
    Case("empty answers", lambda wire: [whole(wire)], EMPTY),
    Case("an empty text", lambda wire: [whole(wire, "", "")], EMPTY),
    Case("white space alone", lambda wire: [whole(wire, " ", "\n\n")], EMPTY),
    # cut off, filtered
    Case("cut off at the limit", lambda wire: [whole(wire, GOOD, reason="length")], LIMIT),
    Case(
        "the limit before the first word",
        lambda wire: [whole(wire, reason="length")],
        Expect(error="empty_answer", said="reached its limit of tokens before it said anything", note="limit"),
    ),
    Case(
        "filtered in mid-answer",
        lambda wire: [whole(wire, GOOD, reason="content_filter")],
        Expect(cut="content_filter", note="content filter cut the answer off", logged="an answer was cut off"),
    ),
    Case(
        "filtered altogether",
        lambda wire: [whole(wire, reason="content_filter")],
        WITHHELD_ALL,
    ),
    # reasoning
    Case("<think>", lambda wire: [whole(wire, "<think>Hm, well.</think>\n\n", GOOD)], Expect(reasoning="Hm, well.")),
    Case(
        "<think>, letter by letter",
        lambda wire: [whole(wire, *"\n<think>Hm < </th well.</think>\n\nNice day.")],
        Expect(reasoning="Hm < </th well."),
    ),
    Case(
        "<think>, twice",
        lambda wire: [whole(wire, "<think>Hm.</think><think>", "Well.</think>Nice day.")],
        Expect(reasoning="Hm.Well."),
    ),
    Case("an empty <think>", lambda wire: [whole(wire, "<think>\n\n</think>\n\n", GOOD)], Expect(reasoning="\n\n")),
    Case("[THINK]", lambda wire: [whole(wire, "[THINK]Hm.[/THINK]", GOOD)], Expect(reasoning="Hm.")),
    Case(
        "<think> that does not end",
        lambda wire: [whole(wire, "<think>Hm, ", "well")],
        Expect(
            reasoning="Hm, wellHm, well",
            error="empty_answer",
            said="it only reasoned",
            requests=2,
            logged="a model gave no answer",
        ),
    ),
    Case(
        "<think> up to the limit",
        lambda wire: [whole(wire, "<think>Hm", reason="length")],
        Expect(reasoning="Hm", error="empty_answer", said="used up its limit of tokens by reasoning", note="limit"),
    ),
    Case(
        "<think> in the middle is text",
        lambda wire: [whole(wire, "Use <think>", "so</think> for it.")],
        Expect("Use <think>so</think> for it."),
    ),
    Case("what only looks like it", lambda wire: [whole(wire, "  <th", "e>")], Expect("  <the>")),
    Case(
        "reasoning in a field of its own",
        lambda wire: [streams(wire.reasoning("Hm, "), wire.reasoning("well."), wire.text(GOOD), wire.finish("stop"))],
        Expect(reasoning="Hm, well."),
    ),
    Case(
        "reasoning alone, then a good answer",
        lambda wire: [streams(wire.reasoning("Hm."), wire.finish("stop"), wire.done), good(wire)],
        Expect(reasoning="Hm.", requests=2),
    ),
    Case(
        "reasoning, then a call",
        lambda wire: [
            streams(wire.reasoning("Hm."), wire.calls(("c1", "Weather", ROME)), wire.finish("tool_calls"), wire.done),
            good(wire),
        ],
        Expect(reasoning="Hm.", calls=[WEATHER], told="sunny", requests=2),
    ),
    # events that cannot be read
    Case("one unreadable event", lambda wire: [unreadable(wire, 1)], Expect(note="1 unreadable")),
    Case("nine unreadable events", lambda wire: [unreadable(wire, 9)], Expect(note="9 unreadable")),
    Case("ten unreadable events", lambda wire: [unreadable(wire, 10)], failed("no chat completion", text="Nice ")),
    Case("nothing readable", lambda wire: [streams(wire.raw(b"{oops"))], failed("")),
    Case("an event without end", lambda wire: [streams(b"data: " + b"x" * (2 << 20))], failed("")),
    Case(
        "characters cut in two",
        lambda wire: [streams(*one_by_one(wire.text("Grüße, 世界 👋") + wire.finish("stop") + wire.done))],
        Expect("Grüße, 世界 👋"),
    ),
    # silence
    Case(
        "silence before the answer",
        lambda wire: [silence],
        Expect(error="model_timed_out", said="first byte", logged="a model gave no answer"),
        first_byte_timeout_s=SILENCE_S,
    ),
    Case(
        "silence behind the headers",
        lambda wire: [streams(then="hang")],
        Expect(error="model_timed_out", said="first byte", logged="a model gave no answer"),
        first_byte_timeout_s=SILENCE_S,
    ),
    Case(
        "silence in mid-answer",
        lambda wire: [streams(wire.text("Nice "), then="hang")],
        Expect("Nice ", error="model_timed_out", said="between chunks", logged="a model gave no answer"),
        between_chunks_timeout_s=SILENCE_S,
    ),
    Case(
        "silence after the end",
        lambda wire: [streams(wire.text(GOOD), wire.finish("stop"), then="hang")],
        between_chunks_timeout_s=SILENCE_S,
    ),
    # connections and statuses
    Case("cut before the first byte", lambda wire: [streams(then="cut")], failed("")),
    Case("cut in mid-answer", lambda wire: [streams(wire.text("Nice "), then="cut")], failed("", text="Nice ")),
    Case("ended in mid-answer", lambda wire: [streams(wire.text("Nice "))], failed("ended", text="Nice ")),
    Case("an empty body", lambda wire: [streams()], failed("")),
    Case("an error in the stream", lambda wire: [streams(wire.error("overloaded"))], failed("overloaded")),
    Case(
        "an error in mid-answer",
        lambda wire: [streams(wire.text("Nice "), wire.error("overloaded"))],
        failed("overloaded", text="Nice "),
    ),
    *(Case(f"status {status}", refusing(status), failed("not today")) for status in (400, 401, 403, 404, 422)),
    *(Case(f"status {status}", refusing(status), failed("not today")) for status in (429, 500, 503, 529)),
    Case(
        "429 with an hour's patience",
        refusing(429, **{"Retry-After": "3600"}),
        failed("not today"),
        retries=1,
    ),
    Case(
        "429, then a good answer",
        lambda wire: [*refusing(429, **{"Retry-After": "0"})(wire), good(wire)],
        Expect(requests=2),
        retries=1,
    ),
    Case("502 of a proxy", lambda wire: [replies(502, "<html><h1>Bad Gateway</h1></html>")], failed("502")),
    Case("a redirect", lambda wire: [replies(302, "", Location="http://127.0.0.1:1/")], failed("")),
    Case("a page in place of an answer", lambda wire: [replies(200, "<html>Sign in</html>")], failed("")),
    Case("an object of another kind", lambda wire: [replies(200, {"ok": True})], failed("")),
    # tool calls
    Case(
        "a call",
        lambda wire: [calling(wire, ("c1", "Weather", ROME)), good(wire)],
        Expect(calls=[WEATHER], told="sunny", requests=2),
    ),
    Case(
        "a call that ends with stop",
        lambda wire: [calling(wire, ("c1", "Weather", ROME), reason="stop"), good(wire)],
        Expect(calls=[WEATHER], told="sunny", requests=2),
    ),
    Case(
        "two calls of one id",
        lambda wire: [calling(wire, ("c1", "Weather", ROME), ("c1", "Weather", '{"city": "Oslo"}')), good(wire)],
        Expect(calls=[WEATHER, ("Weather", {"city": "Oslo"})], told="sunny", requests=2),
    ),
    Case(
        "a tool that is not there",
        lambda wire: [calling(wire, ("c1", "Wether", ROME)), good(wire)],
        Expect(told="no tool named 'Wether'", requests=2),
    ),
    Case(
        "arguments that are no JSON",
        lambda wire: [calling(wire, ("c1", "Weather", '{"city": ')), good(wire)],
        Expect(told="not a JSON object", requests=2),
    ),
    Case(
        "arguments that are a list",
        lambda wire: [calling(wire, ("c1", "Weather", "[1]")), good(wire)],
        Expect(told="not a JSON object", requests=2),
    ),
    Case(
        "arguments that are a JSON text of JSON",
        lambda wire: [calling(wire, ("c1", "Weather", '"{\\"city\\": \\"Rome\\"}"')), good(wire)],
        Expect(calls=[WEATHER], told="sunny", requests=2),
    ),
    Case(
        "arguments cut off at the limit",
        lambda wire: [calling(wire, ("c1", "Weather", '{"city": "Ro'), reason="length"), good(wire)],
        Expect(told="cut off at the model's limit", requests=2, note="limit"),
    ),
    Case(
        "calls without end",
        lambda wire: [calling(wire, *((f"c{number}", "Weather", ROME) for number in range(MAX_CALLS + 1)))],
        failed("more than 100 tool calls at once"),
    ),
]
