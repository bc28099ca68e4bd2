"""The Mock Chat Model's answers, exactly."""

from __future__ import annotations

import asyncio
import time

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
from convoq.models.mock import HELP, MockModel, answer

CALCULATOR = ToolSpec("My_Calculator", "", {"type": "object"})
OTHER = ToolSpec("Search", "", {"type": "object"})


@pytest.mark.parametrize(
    ("question", "expression"),
    [
        ("What is 19 * 23?", "19 * 23"),
        ("19*23", "19 * 23"),
        ("what is 19 x 23", "19 * 23"),
        ("19 × 23 please", "19 * 23"),
        ("10 ÷ 4", "10 / 4"),
        ("1.5 + 2", "1.5 + 2"),
        ("7 - 2", "7 - 2"),
        ("1 + 2 * 3 / 4", "1 + 2 * 3 / 4"),
    ],
)
def test_arithmetic_is_for_the_calculator(question: str, expression: str) -> None:
    call = answer([UserMessage(question)], [OTHER, CALCULATOR])
    assert call == ToolCall("call_1", "My_Calculator", f'{{"input":"{expression}"}}')


def result(content: str, id: str = "c1", name: str = "Calculator") -> list[Message]:
    return [AssistantMessage("", (ToolCall(id, "Calculator", "{}"),)), ToolMessage(content, id, name)]


TOLD: list[Message] = [UserMessage("my name is Ada"), AssistantMessage("Nice to meet you, Ada.")]


@pytest.mark.parametrize(
    ("messages", "expected"),
    [
        ([UserMessage("What is 19 * 23?"), *result("437")], "Based on the tools: Calculator returned 437."),
        (
            [UserMessage("?"), *result("1"), *result("2", "c2", "Search")],
            "Based on the tools: Calculator returned 1; Search returned 2.",
        ),
        ([UserMessage("?"), *result("437", name="")], "Based on the tools: Calculator returned 437."),
        ([UserMessage("1 + 1"), *result("2"), AssistantMessage("2"), UserMessage("hi")], HELP),
        ([*TOLD, UserMessage("What is my name?")], "Your name is Ada."),
        ([*TOLD, UserMessage("my name is Bob"), UserMessage("what's my name")], "Your name is Bob."),
        ([UserMessage("What is my name?")], "I do not know your name yet."),
        ([SystemMessage("my name is Hal"), UserMessage("What is my name?")], "I do not know your name yet."),
        ([UserMessage("Hello, my name is Ada!")], "Nice to meet you, Ada."),
        ([UserMessage("My name is Zoë-Anne.")], "Nice to meet you, Zoë-Anne."),
        ([UserMessage("my name is <script>")], HELP),
        ([UserMessage("19 * 23")], HELP),
        ([], HELP),
    ],
)
def test_texts(messages: list[Message], expected: str) -> None:
    assert answer(messages, [OTHER]) == expected


async def collect(model: MockModel, messages: list[Message], tools: list[ToolSpec]) -> list[Delta]:
    return [delta async for delta in model.stream(messages, tools, ModelSettings())]


def test_it_streams_word_by_word() -> None:
    deltas = asyncio.run(collect(MockModel(), [*TOLD, UserMessage("what is my name?")], []))
    assert deltas == [*map(TextDelta, ("Your ", "name ", "is ", "Ada.")), Finish("stop", 13, 4)]


def test_it_streams_a_call() -> None:
    deltas = asyncio.run(collect(MockModel(), [UserMessage("1 + 1")], [CALCULATOR]))
    assert deltas == [CallDelta(ToolCall("call_1", "My_Calculator", '{"input":"1 + 1"}')), Finish("tool_calls", 3, 1)]


def test_it_waits_before_each_token() -> None:
    started = time.monotonic()
    asyncio.run(collect(MockModel(delay_per_token_ms=20), [*TOLD, UserMessage("what is my name?")], []))
    assert time.monotonic() - started >= 0.08
