"""Whatever messages come in, what is made of them can be sent; and nothing that was said is lost on the way."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from convoq.contract.execution import ExecutionInfo
from convoq.contract.memory import Step, ToolUse, Turn
from convoq.errors import ModelFailed, NodeFailed
from convoq.memory.local import LocalMemories
from convoq.memory.messages import flat, messages_of, turns_from
from convoq.memory.summary import Limits, LocalFolds, SummaryMemory, text_of
from tests.memory.strict import check

TEXT = st.text("ab ✓", max_size=4)
CALL_ID = st.sampled_from(["", "c1", "c2", "c3"])
CALL = st.fixed_dictionaries(
    {"id": CALL_ID, "name": st.sampled_from(["Search", "bad name!"]), "arguments": st.sampled_from(["{}", "no", "[]"])}
)
MESSAGE = st.one_of(
    st.fixed_dictionaries({"role": st.sampled_from(["user", "human", "system", "assistant", "ai"]), "content": TEXT}),
    st.fixed_dictionaries({"role": st.just("assistant"), "content": TEXT, "tool_calls": st.lists(CALL, max_size=3)}),
    st.fixed_dictionaries({"role": st.just("tool"), "content": TEXT, "tool_call_id": CALL_ID}),
    st.fixed_dictionaries({"type": st.just("user"), "message": TEXT, "hideFromUI": st.booleans()}),
)
INFO = ExecutionInfo("x", 1, "wf", "W", "s", "production", 0.0)


@settings(deadline=None)
@given(st.lists(MESSAGE, max_size=12))
def test_any_messages_make_a_history_that_can_be_sent(messages: list[dict[str, Any]]) -> None:
    memory = LocalMemories(lambda: 0.0)(INFO, "s", "Mem", window=99, ttl_s=9)

    async def main() -> Sequence[Turn]:
        await memory.replace(turns_from(messages, "x", 1.0))
        return await memory.load()

    loaded = asyncio.run(main())
    check(loaded)
    said = [message["content"] for turn in loaded for message in messages_of(turn)]
    for message in messages:
        text = message.get("content", message.get("message"))
        if text and message.get("role") in ("user", "human", "system", "ai"):
            assert text in said
    assert len({turn.id for turn in loaded}) == len(loaded)


STEPS = st.lists(st.integers(1, 2), max_size=2).map(
    lambda rounds: tuple(
        Step(f"round {r}", tuple(ToolUse(f"c{r}-{c}", "Search", "{}", f"found {c}") for c in range(calls)))
        for r, calls in enumerate(rounds)
    )
)


@settings(deadline=None)
@given(st.lists(st.tuples(TEXT.filter(bool), TEXT.filter(bool), STEPS, st.booleans()), max_size=5))
def test_messages_of_turns_make_the_same_turns(shapes: list[tuple[str, str, tuple[Step, ...], bool]]) -> None:
    turns = [
        Turn(f"x:{number}", user, answer, steps, 5.0, 6.0, hidden=hidden)
        for number, (user, answer, steps, hidden) in enumerate(shapes)
    ]
    assert turns_from([message for turn in turns for message in messages_of(turn)], "x", 1.0) == turns


def test_messages_come_as_items_or_as_a_list_in_one() -> None:
    pairs = {"messages": [{"human": "q", "ai": "a"}, {"role": "user", "content": "r"}], "messagesCount": 2}
    found = list(flat([pairs, {"type": "ai", "message": "b"}]))
    assert [(turn.user, turn.answer) for turn in turns_from(found, "x", 0.0)] == [("q", "a"), ("r", "b")]


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        ({"content": "x"}, "message 0: role 'None' is not"),
        ({"role": "user"}, "message 0: content is NoneType"),
        ({"role": "user", "content": ["x"]}, "message 0: content is list"),
        ({"role": "ai", "content": "", "tool_calls": [{"id": "c"}]}, "message 0: a tool call has no name"),
    ],
)
def test_what_is_no_message_is_refused(message: dict[str, Any], reason: str) -> None:
    with pytest.raises(NodeFailed, match=reason):
        turns_from([message], "x", 0.0)


@settings(deadline=None)
@given(st.lists(st.booleans(), max_size=25), st.integers(2, 12))
def test_a_summary_never_loses_or_repeats_a_turn(works: list[bool], limit: int) -> None:
    """`works` tells for each turn whether the model would sum up after it. Its summary here is the list of what it was
    given: at any time each turn is in the summary once, or stored, in order."""
    memories = LocalMemories(lambda: 0.0)
    inner = memories(INFO, "s", "Mem", window=10_000, ttl_s=9)
    model = {"works": True}

    async def summarise(summary: str, turns: Sequence[Turn]) -> str:
        if not model["works"]:
            raise ModelFailed("overloaded")
        return " ".join(filter(None, [summary, *(turn.user for turn in turns)]))

    async def pull() -> Any:
        return Limits(limit, 0, lambda turn: 0), summarise

    memory = SummaryMemory(inner, LocalFolds(memories), (INFO, "s", "Mem"), pull, ttl_s=9)

    async def main() -> None:
        said = []
        for number, fine in enumerate(works):
            model["works"] = fine
            said.append(f"q{number}")
            await memory.append(Turn(f"x{number}", f"q{number}", "a"))
            loaded = await memory.load()
            check(loaded)
            summed_up = text_of(loaded[0]).split() if loaded[0].hidden else []
            kept = [turn.user for turn in loaded if not turn.hidden]
            assert summed_up + kept == said
            assert kept, "the newest turn is never summed up"
            if fine:
                assert 2 * len(kept) <= max(limit, 2)

    asyncio.run(main())
