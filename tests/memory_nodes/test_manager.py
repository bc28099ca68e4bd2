"""Chat Memory Manager, mode by mode, as n8n's does it; and what an agent makes of the messages it put in."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from convoq.contract.memory import Step, ToolUse, Turn
from convoq.contract.model import SystemMessage
from convoq.errors import InvalidWorkflow
from convoq.memory.local import LocalMemories
from tests.agent.harness import MEMORY, node
from tests.memory_nodes.lab import Lab, Said, answers, link, redis_parts, running

MANAGER = "@n8n/n8n-nodes-langchain.memoryManager"
STEP = Step("let me see", (ToolUse("c1", "Search", '{"q":"x"}', "found"),))
TALK = (Turn("x1", "question 1", "answer 1", started=1.0, ended=2.0), Turn("x2", "question 2", "answer 2", (STEP,)))


def lab(version: float = 1.1, memories: Any = None, **parameters: Any) -> Lab:
    """Chat -> Manager -> Agent, both on one memory."""
    return Lab(
        [
            node("Mem", MEMORY, 1.3, parameters={"contextWindowLength": 20}),
            node("Manager", MANAGER, version, parameters=parameters),
        ],
        links=[
            *[link("Mem", "Agent", "ai_memory"), link("Mem", "Manager", "ai_memory")],
            link("Chat", "Manager"),
        ],
        memories=memories or LocalMemories(lambda: 0.0),
        model=answers(9),
    )


async def run(lab: Lab, turns: Sequence[Turn] = TALK) -> tuple[Said, list[Turn]]:
    """One message to a session that holds `turns`; what is stored after it, without what the agent added."""
    from convoq.contract.execution import ExecutionInfo

    info = ExecutionInfo("x0", 1, lab.id, "W", "s", "production", 0.0)
    if turns:
        await lab.memories(info, "s", "Mem", window=20, ttl_s=99).replace(list(turns))
    said = await lab.say("hello", execution="now")
    assert said.outcome.error is None, said.outcome.error
    return said, [turn for turn in await lab.stored() if turn.user != "hello"]


def inserted(*messages: tuple[str, str], hide: bool = False, mode: str = "insert", version: float = 1.1) -> Lab:
    values = [{"type": kind, "message": text, **({"hideFromUI": True} if hide else {})} for kind, text in messages]
    return lab(version, mode="insert", insertMode=mode, messages={"messageValues": values})


def test_load_gives_one_item_with_pairs() -> None:
    said, _ = asyncio.run(run(lab()))
    assert said.items("Manager") == [
        {
            "messages": [
                {"human": "question 1", "ai": "answer 1"},
                {"human": "question 2", "ai": "let me see", "tool": "found"},
                {"ai": "answer 2"},
            ],
            "messagesCount": 3,
        }
    ]


def test_load_one_item_a_group() -> None:
    said, _ = asyncio.run(run(lab(options={"groupMessages": False})))
    assert said.items("Manager")[0] == {"human": "question 1", "ai": "answer 1"}
    said, _ = asyncio.run(run(lab(1)))
    assert said.items("Manager")[0] == {"human": "question 1", "ai": "answer 1"}, "version 1 does not group by itself"


def test_load_whole_messages() -> None:
    said, _ = asyncio.run(run(lab(simplifyOutput=False)))
    messages = said.items("Manager")[0]["messages"]
    assert [message["id"][-1] for message in messages] == [
        *["HumanMessage", "AIMessage", "HumanMessage", "AIMessage", "ToolMessage", "AIMessage"]
    ]
    assert messages[0] == {
        "lc": 1,
        "type": "constructor",
        "id": ["langchain_core", "messages", "HumanMessage"],
        "kwargs": {"content": "question 1", "additional_kwargs": {}, "response_metadata": {}},
    }
    assert messages[3]["kwargs"]["tool_calls"] == [
        {"id": "c1", "name": "Search", "args": {"q": "x"}, "type": "tool_call"}
    ]
    assert messages[4]["kwargs"]["tool_call_id"] == "c1"


def test_an_empty_memory() -> None:
    said, _ = asyncio.run(run(lab(), ()))
    assert said.items("Manager") == [{"messages": [], "messagesCount": 0}]


def test_insert_puts_messages_after_those_that_are_there() -> None:
    said, stored = asyncio.run(run(inserted(("user", "I am Ada"), ("ai", "Hello Ada"))))
    assert said.items("Manager") == [{"success": True}]
    assert stored[:2] == list(TALK)
    assert [(turn.user, turn.answer) for turn in stored[2:]] == [("I am Ada", "Hello Ada")]


def test_override_puts_them_in_the_place_of_all() -> None:
    _, stored = asyncio.run(run(inserted(("user", "I am Ada"), ("ai", "Hello Ada"), mode="override")))
    assert [(turn.user, turn.answer) for turn in stored] == [("I am Ada", "Hello Ada")]
    _, stored = asyncio.run(run(inserted(mode="override")))
    assert stored == []


def test_single_messages_are_turns_with_a_part_missing_and_can_be_sent() -> None:
    chat = inserted(
        ("ai", "Welcome!"), ("user", "I am Ada"), ("user", "and blind"), ("system", "Be brief."), mode="override"
    )
    _, stored = asyncio.run(run(chat))
    assert [(turn.user, turn.answer, turn.system) for turn in stored] == [
        *[("", "Welcome!", ""), ("I am Ada", "", ""), ("and blind", "", ""), ("", "", "Be brief.")]
    ]
    first = chat.model.asked[0][0]
    assert isinstance(first, SystemMessage) and first.content == "You are a helpful assistant\n\nBe brief."
    roles = [role for role, _ in chat.sent(0)]
    assert roles == ["user", "assistant"] * 3 + ["user"], "alternating, the user first, no second system message"
    assert all(text for _, text in chat.sent(0)), "none is empty"


def test_a_message_is_a_system_message_unless_it_says_otherwise() -> None:
    chat = lab(mode="insert", messages={"messageValues": [{"message": "Speak French."}]})
    _, stored = asyncio.run(run(chat, ()))
    assert [turn.system for turn in stored] == ["Speak French."]


def test_version_1_answers_with_what_is_stored() -> None:
    said, _ = asyncio.run(run(inserted(("ai", "Welcome!"), mode="override", version=1)))
    (item,) = said.items("Manager")
    assert item["id"][-1] == "AIMessage" and item["kwargs"]["content"] == "Welcome!"


@pytest.mark.parametrize(
    ("count", "left"),
    [
        (0, [*TALK]),
        (4, [TALK[0]]),
        (6, []),
        (7, [*TALK]),  # as n8n: fewer are stored, so nothing is deleted
        (5, [Turn("x1", "question 1", "", started=1.0, cut_off=True)]),
        (1, [TALK[0], Turn("x2", "question 2", "", (STEP,), started=1000.0, cut_off=True)]),
        (2, [TALK[0], Turn("x2", "question 2", "", started=1000.0, cut_off=True)]),
    ],
)
def test_delete_the_last(count: int, left: list[Turn]) -> None:
    """The messages are: question 1, answer 1, question 2, call, result, answer 2."""
    said, stored = asyncio.run(run(lab(mode="delete", lastMessagesCount=count)))
    assert said.items("Manager") == [{"success": True}]

    def plain(turns: Sequence[Turn]) -> list[Any]:
        return [(turn.id, turn.user, turn.answer, turn.steps, turn.cut_off) for turn in turns]

    assert plain(stored) == plain(left)


def test_delete_takes_two_by_default_and_all_if_asked() -> None:
    _, stored = asyncio.run(run(lab(mode="delete"), TALK[:1]))
    assert stored == []
    _, stored = asyncio.run(run(lab(mode="delete", deleteMode="all")))
    assert stored == []


def test_a_manager_without_a_memory_is_a_fault() -> None:
    with pytest.raises(InvalidWorkflow, match="ai_memory"):
        Lab([node("Manager", MANAGER, 1.1)], links=[link("Chat", "Manager")])


def test_inserting_again_after_a_lost_worker_changes_nothing(redis_url: str) -> None:
    """In Redis, where what was hidden and what was a system message come back as such."""

    async def main() -> None:
        async with redis_parts(redis_url) as (pipe, memories, _):
            chat = inserted(("user", "secret"), ("system", "Be brief."), hide=True)
            chat.memories = memories
            execution = await running(pipe, f"{chat.id}-1")
            for _ in range(2):
                said = await chat.say("hello", execution=execution)
                assert said.outcome.error is None
            stored = await chat.stored()
            assert [(turn.user, turn.system, turn.hidden) for turn in stored] == [
                *[("secret", "", True), ("", "Be brief.", True), ("hello", "", False)]
            ]

    asyncio.run(main())
