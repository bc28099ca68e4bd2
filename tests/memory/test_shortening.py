"""Turns that are larger than what is remembered."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from convoq.contract.memory import MAX_MESSAGE_BYTES, Step, ToolUse, Turn, check_size
from convoq.memory.shortening import shortened
from tests.agent.harness import SIMPLE_MEMORY, ScriptedModel, run_agent, turns
from tests.api.test_reasoning import ask
from tests.memory import strict
from tests.models.server import DONE, delta, streams
from tests.stack import Stack

MARK = "bytes in all: the middle is not remembered …]"
LARGE = "".join(f"{number:07d} " for number in range(80_000))
"""640,000 bytes."""


def test_a_turn_that_fits_stays_what_it_is() -> None:
    turn = Turn("x", "é" * (MAX_MESSAGE_BYTES // 2), "a", (Step("t", (ToolUse("c", "n", "{}", "r"),)),))
    assert shortened(turn) is turn


@pytest.mark.parametrize("text", [LARGE, "é" * 300_000, "🦊" * 200_000], ids=["ascii", "two bytes", "four bytes"])
def test_beginning_and_end_are_kept_around_a_mark(text: str) -> None:
    short = shortened(Turn("x", "q", text))
    check_size(short)
    head, _, rest = short.answer.partition("\n\n[… ")
    tail = rest.split("\n\n", 1)[1]
    assert f"{len(text.encode())} {MARK}" in short.answer
    assert text.startswith(head) and text.endswith(tail)
    assert len((head + tail).encode()) > MAX_MESSAGE_BYTES - 200


SIZES = st.integers(0, 900_000)
TEXTS = st.builds(lambda size, letter: letter * size, SIZES, st.sampled_from(["a", "é", "🦊", '"']))
USES = st.builds(lambda size, result: ToolUse("c", "t", json.dumps({"x": "y" * size}), result), SIZES, TEXTS)
STEPS = st.lists(st.builds(lambda text, uses: Step(text, tuple(uses)), TEXTS, st.lists(USES, min_size=1, max_size=3)))


@settings(max_examples=40, deadline=None)
@given(TEXTS, TEXTS, STEPS)
def test_whatever_was_said_can_be_remembered(user: str, answer: str, steps: list[Step]) -> None:
    short = shortened(Turn("x", user, answer, tuple(steps)))
    check_size(short)
    assert bool(short.answer) == bool(answer)
    for step in short.steps:
        assert all(isinstance(json.loads(use.arguments), dict) for use in step.calls)


def test_very_many_tool_rounds_lose_the_first() -> None:
    steps = tuple(Step("", (ToolUse(f"c{number}", "t", "{}", "r" * 1000),)) for number in range(3000))
    short = shortened(Turn("x", "q", "a", steps))
    check_size(short)
    assert 900 < len(short.steps) < 3000 and short.steps[-1] == steps[-1]
    strict.check([short])


def test_the_answer_ends_well_and_the_end_says_how_it_is_remembered() -> None:
    bench = run_agent(
        {"Model": ScriptedModel([[LARGE[:300_000], LARGE[300_000:]]])}, memory=SIMPLE_MEMORY, streaming=True
    )
    assert [type(chunk).__name__ for chunk in bench.chunks] == ["Begin", "Item", "Item", "End"]
    assert [chunk.metadata.memory == "shortened" for chunk in bench.chunks] == [False, False, False, True]
    assert bench.output == {"output": LARGE, "memory": "shortened"}
    (note,) = bench.runs_of("Memory")[-1].notes
    assert "too large to be remembered whole" in note


def test_the_next_message_is_told_the_short_form() -> None:
    from convoq.memory.local import LocalMemories

    memories = LocalMemories()
    run_agent({"Model": ScriptedModel([[LARGE]])}, memory=SIMPLE_MEMORY, memories=memories)
    (kept,) = turns(memories)
    assert MARK in kept.answer
    model = ScriptedModel([["ok"]])
    bench = run_agent({"Model": model}, memory=SIMPLE_MEMORY, memories=memories, execution="x2")
    assert model.asked[0][2].content == kept.answer
    assert bench.output == {"output": "ok"}


@pytest.mark.parametrize("accept", ["application/x-ndjson", "application/json"])
def test_by_the_whole_path(product: Stack, accept: str) -> None:
    answer = streams(*(delta(LARGE[at : at + 8000]) for at in range(0, len(LARGE), 8000)), DONE)
    path = f"large-{accept.replace('/', '-')}"
    reply = ask(product, path, answer, accept)
    if accept == "application/json":
        assert reply.json == {"output": LARGE, "memory": "shortened"}
    else:
        assert reply.text == LARGE
        assert reply.lines[-1]["type"] == "end"
        assert [line["metadata"].get("memory") for line in reply.lines if line["type"] == "end"] == ["shortened"]
        assert not [line for line in reply.lines if line["type"] == "error"]
    (_, question), (_, kept) = product.remembered(path)
    assert question == "Hello" and MARK in kept and len(kept.encode()) <= MAX_MESSAGE_BYTES
