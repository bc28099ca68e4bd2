"""The chat history node: the thread, as the chat saw it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from convoq.errors import InvalidWorkflow
from convoq.memory.thread import Exchange
from tests.agent.harness import AGENT, MEMORY, node
from tests.memory_nodes.lab import Lab, answers, exchange, link
from tests.stack import Stack, chat_workflow

HISTORY = "convoq.chatHistory"


def lab(count: int, *, links: Sequence[tuple[str, str, str, int]] = (), **options: Any) -> Lab:
    async def threads(workflow: str, session: str, limit: int) -> Sequence[Exchange]:
        assert session == "s"
        return [exchange(number) for number in range(count)][-limit:]

    nodes = [node("History", HISTORY, parameters={"options": options}), node("Show", "n8n-nodes-base.set", 3.4)]
    return Lab(
        nodes, links=[link("Chat", "History"), link("History", "Show"), *links], threads=threads, model=answers(3)
    )


def test_the_item_goes_on_with_the_messages() -> None:
    said = asyncio.run(lab(2).say("now"))
    (item,) = said.items("History")
    assert item["chatInput"] == "now", "so that an agent can come after it"
    assert item["messagesCount"] == 4
    assert item["messages"][:2] == [
        {"role": "user", "content": "question 0", "at": 100.0},
        {"role": "assistant", "content": "answer 0", "at": 100.5},
    ]


def test_on_the_first_message_there_is_an_item_too() -> None:
    (item,) = asyncio.run(lab(0).say("now")).items("History")
    assert (item["messages"], item["messagesCount"]) == ([], 0)


def test_one_item_a_message() -> None:
    items = asyncio.run(lab(2, groupMessages=False).say("now")).items("History")
    assert [item["content"] for item in items] == ["question 0", "answer 0", "question 1", "answer 1"]


def test_the_limit_counts_messages_the_newest_are_told() -> None:
    (item,) = asyncio.run(lab(9, limit=3).say("now")).items("History")
    assert [message["content"] for message in item["messages"]] == ["answer 7", "question 8", "answer 8"]


@pytest.mark.parametrize("limit", [0, 2001])
def test_the_limit_is_bounded(limit: int) -> None:
    with pytest.raises(InvalidWorkflow, match="limit"):
        lab(1, limit=limit)


def test_without_a_session_there_is_no_thread() -> None:
    (item,) = asyncio.run(lab(2).say("now", session="")).items("History")
    assert item["messages"] == []


def warnings(*, memory: str, agent: Any = None, links: Sequence[tuple[str, str, str, int]] = ()) -> Sequence[str]:
    return Lab(
        [node("Mem", memory), node("History", HISTORY)],
        links=[link("Mem", "Agent", "ai_memory"), link("Chat", "History"), *links],
        agent=agent or {},
    ).workflow.warnings


@pytest.mark.parametrize("memory", ["convoq.windowMemory", "convoq.memoryWhole", MEMORY])
def test_a_memory_and_the_history_at_one_agent_warn(memory: str) -> None:
    expected = ("'Agent' is given the dialogue twice: by its memory and by 'History'",)
    assert warnings(memory=memory, links=[link("History", "Agent")]) == expected
    prompt = {"promptType": "define", "text": "={{ $('History').first().json.messages }} {{ $json.chatInput }}"}
    assert warnings(memory=memory, agent=prompt) == expected


def test_history_elsewhere_does_not_warn() -> None:
    assert warnings(memory="convoq.windowMemory") == ()
    other = Lab(
        [node("Mem", "convoq.windowMemory"), node("History", HISTORY), node("Second", AGENT, 3.1)],
        links=[
            *[link("Mem", "Agent", "ai_memory"), link("Chat", "History"), link("History", "Second")],
            link("Model", "Second", "ai_languageModel"),
        ],
    )
    assert other.workflow.warnings == ()


def test_it_reads_what_was_said_before_the_agent_was_there(product: Stack) -> None:
    """First the workflow has neither agent nor memory; then both, and the history before them."""
    plain = chat_workflow("grown", mode="lastNode")
    plain["nodes"] = [
        plain["nodes"][0],
        {
            **{"name": "Echo", "type": "n8n-nodes-base.set", "typeVersion": 3.4, "position": [1, 1]},
            "parameters": {
                "assignments": {
                    "assignments": [
                        {"id": "1", "name": "output", "type": "string", "value": "=I heard: {{ $json.chatInput }}"}
                    ]
                }
            },
        },
    ]
    plain["connections"] = {"Chat": {"main": [[{"node": "Echo", "type": "main", "index": 0}]]}}
    product.install(plain)
    first = product.say("grown", "the code is 4417", "old friend")
    assert first.json == {"output": "I heard: the code is 4417"}
    product.execution(first.headers["x-execution-id"])
    grown = chat_workflow("grown", mode="lastNode")
    grown["nodes"].append({"name": "History", "type": HISTORY, "typeVersion": 1, "position": [1, 1]})
    grown["connections"]["Chat"]["main"][0][0]["node"] = "History"
    grown["connections"]["History"] = {"main": [[{"node": "AI Agent", "type": "main", "index": 0}]]}
    product.install(grown)

    def asked() -> Any:
        reply = product.say("grown", "my name is Ada", "old friend")
        record = product.execution(reply.headers["x-execution-id"])
        return next((run for run in record["data"] if run["node"] == "History"), None)

    from tests.stack import until

    run = until(asked, "a worker that has the new workflow")
    messages = run["outputs"][0][0]["messages"]
    assert [(message["role"], message["content"]) for message in messages[:2]] == [
        ("user", "the code is 4417"),
        ("assistant", "I heard: the code is 4417"),
    ]
