"""Which node answers, and that a stream ends as a client expects it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from convoq.engine.answer import close_stream
from convoq.engine.hooks import Hooks, StreamChunk
from convoq.engine.outcome import Outcome
from convoq.engine.workflow import Workflow
from convoq.errors import Stopped
from convoq.protocol import Begin, Metadata
from tests.engine.support import Finished, arun, chain, make, node, run, shown

START = node("Start", "start")


def streamed(workflow: Workflow) -> Finished:
    async def whole() -> Finished:
        done = await arun(workflow, {"chatInput": "hi"}, stream=True)
        await close_stream(done.outcome, done.run.hooks, clock=done.clock)
        return done

    return asyncio.run(whole())


def talk(*segments: list[str], **rest: Any) -> dict[str, Any]:
    settings = {key: rest.pop(key) for key in ("onError", "retryOnFail") if key in rest}
    return node("Agent", "talk", parameters={"segments": list(segments), **rest}, **settings)


def says(name: str, item: dict[str, Any]) -> dict[str, Any]:
    return node(name, "give", parameters={"items": [item]})


@pytest.mark.parametrize(
    "workflow, lines",
    [
        pytest.param(
            chain(talk(["Let me see."], ["It ", "is 4."])),
            [
                "Agent begin",
                "Agent: Let me see.",
                "Agent end",
                "Agent begin",
                "Agent: It ",
                "Agent: is 4.",
                "Agent end",
            ],
            id="what was streamed is all",
        ),
        pytest.param(
            chain(says("Say", {"text": "hello"})),
            ["Say begin", "Say: hello", "Say end"],
            id="nothing was streamed",
        ),
        pytest.param(
            chain(says("Say", {"n": 1})),
            ["Say begin", 'Say: {"n":1}', "Say end"],
            id="no text: the JSON",
        ),
        pytest.param(
            chain(talk([""], [])),
            ["Agent begin", "Agent: ", "Agent end", "Agent begin", "Agent end", "Agent begin", "Agent: ", "Agent end"],
            id="only empty text was streamed",
        ),
        pytest.param(
            chain(talk(["four"]), says("Edit", {"output": "final: four"})),
            ["Agent begin", "Agent: four", "Agent end", "Edit begin", "Edit: final: four", "Edit end"],
            id="a later node changes the answer",
        ),
        pytest.param(
            chain(talk(["four"]), says("Edit", {"output": "four\n"})),
            ["Agent begin", "Agent: four", "Agent end"],
            id="a later node repeats the answer",
        ),
        pytest.param(
            chain(talk(["four"]), says("Log", {"row": 5})),
            ["Agent begin", "Agent: four", "Agent end"],
            id="a later node only logs",
        ),
        pytest.param(
            chain(talk(["four"], leave_open=True)),
            ["Agent begin", "Agent: four", "Agent end"],
            id="a segment left open",
        ),
        pytest.param(
            chain(talk(["fo", "u"], leave_open=True, raises="yes")),
            ["Agent begin", "Agent: fo", "Agent: u", "Agent error node_failed: lost the thread", "Agent end"],
            id="a failure in a segment",
        ),
        pytest.param(
            chain(node("Bad", "fail", parameters={"raises": "value"})),
            ["Bad error node_failed: Bad: ValueError: no luck", "Bad end"],
            id="a failure before any text",
        ),
        pytest.param(
            chain(talk(["a"], raises="yes")),
            ["Agent begin", "Agent: a", "Agent end", "Agent error node_failed: lost the thread", "Agent end"],
            id="a failure between segments",
        ),
        pytest.param(
            chain(
                talk(["a"], leave_open=True, raises="yes", onError="continueRegularOutput"),
                says("S", {"text": "sorry"}),
            ),
            ["Agent begin", "Agent: a", "Agent end", "S begin", "S: sorry", "S end"],
            id="a failure that the workflow caught",
        ),
        pytest.param(
            chain(talk(["a"], leave_open=True, raises="yes", retryOnFail=True)),
            [
                *("Agent begin", "Agent: a", "Agent end") * 2,
                *("Agent begin", "Agent: a", "Agent error node_failed: lost the thread", "Agent end"),
            ],
            id="each try is a segment of its own",
        ),
    ],
)
def test_streams(workflow: Workflow, lines: list[str]) -> None:
    assert streamed(workflow).lines == lines


def test_several_open_segments_are_closed_before_the_error() -> None:
    async def closed() -> list[str]:
        lines: list[str] = []

        async def keep(chunk: StreamChunk) -> None:
            lines.append(shown(chunk))

        hooks = Hooks(keep)
        await hooks.emit(Begin(Metadata("1", "One", 0)))
        await hooks.emit(Begin(Metadata("1", "One", 1)))
        await close_stream(Outcome("error", Stopped("stopped by the user")), hooks)
        return lines

    assert asyncio.run(closed()) == [
        "One begin",
        "One begin",
        "One end",
        "One error stopped: stopped by the user",
        "One end",
    ]


def test_an_error_always_has_content() -> None:
    chunks: list[StreamChunk] = []

    async def keep(chunk: StreamChunk) -> None:
        chunks.append(chunk)

    asyncio.run(close_stream(Outcome("error", Stopped("")), Hooks(keep)))
    assert [shown(chunk) for chunk in chunks] == [" error stopped: stopped", " end"]


def test_chunks_say_where_they_come_from() -> None:
    done = streamed(chain({**talk(["x"]), "id": "n-1"}))
    assert [chunk.metadata for chunk in done.chunks] == [
        Metadata("n-1", "Agent", 0, 0, timestamp) for timestamp in (1_004_000, 1_005_000, 1_006_000)
    ]
    assert {chunk.seq for chunk in done.chunks} == {-1}


def test_nobody_listens() -> None:
    done = run(chain(talk(["x"])))
    assert not done.run.hooks.is_streaming() and not done.run.hooks.streamed and done.chunks == []


def test_lifecycle_hooks_see_every_node_run() -> None:
    seen: list[str] = []
    hooks = Hooks(
        node_started=lambda record: seen.append(f"+{record.node}"),
        node_finished=lambda record: seen.append(f"-{record.node} {record.error and record.error['code']}"),
    )
    workflow = chain(node("Bad", "fail", parameters={"raises": "node"}))
    asyncio.run(arun(workflow, hooks=hooks))
    assert seen == ["+Start", "-Start None", "+Bad", "-Bad node_failed"]


@pytest.mark.parametrize(
    "nodes, links, last, reply, text",
    [
        pytest.param([], [], "Start", {"chatInput": "hi"}, '{"chatInput":"hi"}', id="only the trigger"),
        pytest.param(
            [says("A", {"output": "agent"}), node("Side", "give", 0, 300, parameters={"items": [{"side": "1"}]})],
            ["Start > A", "Start > Side"],
            *("A", {"output": "agent"}, "agent"),
            id="a side branch does not replace the answer",
        ),
        pytest.param(
            [says("A", {"a": 1}), node("B", "give", 0, 300, parameters={"items": [{"b": 2}]})],
            ["Start > A", "Start > B"],
            *("B", {"b": 2}, '{"b":2}'),
            id="without an answer among them the last branch",
        ),
        pytest.param(
            [says("A", {"output": "draft"}), node("B", "give", 400, parameters={"items": [{"row": 5}]})],
            ["Start > A", "A > B"],
            *("B", {"row": 5}, '{"row":5}'),
            id="what came after an answer replaces it",
        ),
        pytest.param(
            [node("A", "give")],
            ["Start > A"],
            *("A", {"message": "The workflow ran, but its last node has no output"}),
            "The workflow ran, but its last node has no output",
            id="no output",
        ),
        pytest.param(
            [says("A", {"output": None, "text": {"k": "é"}})],
            ["Start > A"],
            *("A", {"output": None, "text": {"k": "é"}}, '{"k":"é"}'),
            id="an answer that is no text",
        ),
        pytest.param(
            [node("If", "choose", 200), node("T", "pass", 400)],
            ["Start > If", "If.0 > T"],
            *("If", {"chatInput": "hi", "v": 1}, '{"chatInput":"hi","v":1}'),
            id="items on the second output",
        ),
    ],
)
def test_which_node_answers(
    nodes: list[dict[str, Any]], links: list[str], last: str, reply: dict[str, Any], text: str
) -> None:
    item = {"chatInput": "hi", "v": 1} if last == "If" else {"chatInput": "hi"}
    outcome = run(make([START, *nodes], *links), item).outcome
    assert (outcome.last_node, outcome.reply, outcome.reply_text()) == (last, reply, text)
