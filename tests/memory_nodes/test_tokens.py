"""Windows measured in tokens, and the whole dialogue."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from convoq.contract.memory import Step, ToolUse, Turn
from convoq.memory.tokens import count, count_turn
from tests.agent.harness import MEMORY, node
from tests.memory_nodes.lab import Lab, answers, link


@pytest.mark.parametrize(
    ("text", "model", "expected"),
    [
        ("", "gpt-4o", (0, "estimate")),
        ("four", "gpt-4o", (1, "estimate")),
        ("fives", "gpt-4o", (2, "estimate")),
        ("привет", "gpt-4o", (3, "estimate")),
        ("你好世界", "", (3, "estimate")),
        ("two words", "mock", (2, "exact")),
    ],
)
def test_counting(text: str, model: str, expected: tuple[int, str]) -> None:
    assert count(text, model) == expected


def test_a_turns_calls_and_results_count() -> None:
    turn = Turn("x", "four", "four", (Step("", (ToolUse("c", "name", "{ }", "four"),)),))
    assert count_turn(turn, "") == 4 * (1 + 4) + 2 - 1, "four messages, of which the calling one has no text"
    assert count_turn(turn, "mock") == 1 + 3 + 1 + 1


def talk(lab: Lab, texts: int) -> Any:
    async def main() -> Any:
        said = None
        for number in range(1, texts + 1):
            said = await lab.say(f"question {number}")
            assert said.outcome.error is None, said.outcome.error
        return said

    return asyncio.run(main())


def notes(said: Any) -> str:
    load = said.of("Mem", "ai_memory")[0]
    return str(load.outputs[0][0]["notes"])


def test_a_token_window_keeps_what_fits_and_drops_the_rest_from_storage() -> None:
    """A turn here is (11 + 8) bytes: 3 + 4 and 2 + 4 tokens."""
    lab = Lab([node("Mem", "convoq.memoryTokenWindow", parameters={"maxTokens": 30})], model=answers(5))
    said = talk(lab, 5)
    assert [text for role, text in lab.sent() if role == "user"] == ["question 3", "question 4", "question 5"]
    assert [turn.user for turn in asyncio.run(lab.stored())] == ["question 4", "question 5"]
    assert "26 of at most 30 tokens (an estimate: 4 bytes a token), in 2 of 2 turns" in notes(said)


def test_the_model_connected_to_it_counts() -> None:
    lab = Lab(
        [node("Mem", "convoq.memoryTokenWindow", parameters={"maxTokens": 9}), node("Mock", "convoq.lmChatMock")],
        links=[link("Mem", "Agent", "ai_memory"), link("Mock", "Mem", "ai_languageModel")],
        model=answers(5),
    )
    said = talk(lab, 5)
    assert "8 of at most 9 tokens (exact), in 2 of 2 turns" in notes(said)


def test_max_tokens_from_memory_limits_what_is_told_not_what_is_stored() -> None:
    lab = Lab(
        [node("Mem", MEMORY, 1.3, parameters={"contextWindowLength": 10})],
        agent={"options": {"maxTokensFromMemory": 30}},
        model=answers(5),
    )
    said = talk(lab, 5)
    assert [text for role, text in lab.sent() if role == "user"] == ["question 3", "question 4", "question 5"]
    assert len(asyncio.run(lab.stored())) == 5
    assert "an estimate" in notes(said) and "in 2 of 4 turns" in notes(said)


def test_no_limit_is_the_default() -> None:
    lab = Lab([node("Mem", MEMORY, 1.3)], agent={"options": {"maxTokensFromMemory": 0}}, model=answers(4))
    talk(lab, 4)
    assert len(lab.sent()) == 7


def test_the_whole_dialogue_is_kept() -> None:
    lab = Lab([node("Mem", "convoq.memoryWhole")], model=answers(60))
    talk(lab, 60)
    assert len(lab.sent()) == 59 * 2 + 1
    assert len(asyncio.run(lab.stored())) == 60
