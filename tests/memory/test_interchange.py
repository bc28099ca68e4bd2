"""Histories that n8n wrote go on here, and what is written here is what n8n writes, field by field. The messages are as
n8n 2.40 stored them: by agent 2.2, which keeps question and answer, and by agent 3, which keeps the tool calls too."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from convoq.contract.memory import History, Memory, Step, ToolUse, Turn
from convoq.memory.n8n_messages import read_turns, stored_messages
from convoq.memory.repair import sendable
from tests.memory import strict
from tests.memory.backends import MongoBackend, N8nListBackend, PostgresBackend, other_server, own_redis

REST: dict[str, Any] = {"additional_kwargs": {}, "response_metadata": {}}


def human(text: object) -> dict[str, Any]:
    return {"type": "human", "data": {"content": text, **REST}}


def ai(text: object, *calls: dict[str, Any]) -> dict[str, Any]:
    return {"type": "ai", "data": {"content": text, "tool_calls": list(calls), "invalid_tool_calls": [], **REST}}


def call(id: str, name: str, args: object) -> dict[str, Any]:
    return {"id": id, "name": name, "args": args, "type": "tool_call"}


def result(id: str, name: str, text: str) -> dict[str, Any]:
    return {"type": "tool", "data": {"content": text, "tool_call_id": id, "name": name, **REST}}


AGENT_2 = [human("what is 19 * 23?"), ai("Based on the tools: 437."), human("third message"), ai("w0 w1 w2 ")]
AGENT_3 = [
    human("my name is Ada"),
    ai("w0 w1 w2 "),
    human("what is 19 * 23?"),
    ai([], call("call_1", "Calculator", {"input": "19 * 23", "id": "call_1"})),
    result("call_1", "Calculator", '[{"response":"437"}]'),
    ai('Based on the tools: [{"response":"437"}].'),
]
USE = ToolUse("call_1", "Calculator", '{"input":"19 * 23","id":"call_1"}', '[{"response":"437"}]')
TURNS_3 = [
    Turn("", "my name is Ada", "w0 w1 w2 "),
    Turn("", "what is 19 * 23?", 'Based on the tools: [{"response":"437"}].', (Step("", (USE,)),)),
]


def unmarked(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Without what n8n has no place for."""
    for message in messages:
        message["data"]["additional_kwargs"].pop("convoq", None)
    return messages


@pytest.mark.parametrize("messages", [AGENT_2, AGENT_3], ids=["agent 2", "agent 3"])
def test_what_is_written_is_what_n8n_wrote(messages: list[dict[str, Any]]) -> None:
    turns, notes = read_turns(messages)
    assert notes == []
    written = unmarked([message for turn in turns for message in stored_messages(turn)])
    assert written == messages
    assert json.dumps(written) == json.dumps(messages)  # the order of fields too


def test_the_mark_is_in_the_question_only() -> None:
    turn = Turn("x1", "q", "a", (Step("t", (USE,)),), 1.5, 2.5)
    question, *others = stored_messages(turn)
    assert question["data"]["additional_kwargs"] == {"convoq": {"turn": "x1", "started": 1.5, "ended": 2.5}}
    assert all(message["data"]["additional_kwargs"] == {} for message in others)
    failed = msgspec.structs.replace(USE, failed=True)
    assert stored_messages(Turn("x", "q", "a", (Step("", (failed,)),)))[2]["data"]["status"] == "error"


def test_a_redis_list_of_n8n_goes_on_here_and_there(redis_url: str) -> None:
    async def main() -> None:
        async with own_redis(redis_url, N8nListBackend) as backend:
            key = backend.key("s", "Memory")
            for message in AGENT_3:
                await backend.pipe.command("LPUSH", key, json.dumps(message))
            memory = await backend.open()
            assert list(await memory.load()) == TURNS_3
            await go_on(memory)
            stored = [json.loads(raw) for raw in await backend.pipe.command("LRANGE", key, 0, -1)]
            assert unmarked(stored[::-1]) == [*AGENT_3, human("and now?"), ai("now")]

    asyncio.run(main())


def test_a_postgres_table_of_n8n_goes_on_here_and_there(redis_url: str, postgres_fields: dict[str, Any]) -> None:
    async def main() -> None:
        async with other_server(redis_url, postgres_fields, PostgresBackend) as backend:
            memory = await backend.open()
            table = await backend.pools.postgres(postgres_fields, "n8n_chat_histories")
            await table.layout()
            for message in AGENT_3:
                row = json.dumps({**message["data"], "type": message["type"]})
                insert = "INSERT INTO n8n_chat_histories (session_id, message) VALUES ($1, $2::jsonb)"
                await table.fetch(insert, backend.key("s", "Memory"), row)
            (loaded, *others) = await memory.load()
            assert [loaded, *others] == [TURNS_3[0], sorted_arguments(TURNS_3[1])]
            await go_on(memory)
            rows = await table.fetch(
                "SELECT message FROM n8n_chat_histories WHERE session_id = $1 ORDER BY id", backend.key("s", "Memory")
            )
            stored = [json.loads(row[0]) for row in rows]
            nested = [{"type": row.pop("type"), "data": row} for row in stored]
            assert unmarked(nested) == [*AGENT_3, human("and now?"), ai("now")]

    asyncio.run(main())


def test_a_mongodb_collection_of_n8n_goes_on_here_and_there(redis_url: str, mongo_fields: dict[str, Any]) -> None:
    async def main() -> None:
        async with other_server(redis_url, mongo_fields, MongoBackend) as backend:
            collection = await backend.pools.mongo(mongo_fields, "convoq_test", "n8n_chat_histories").open()
            session = {"sessionId": backend.key("s", "Memory")}
            await collection.insert_one({**session, "messages": AGENT_3})
            memory = await backend.open()
            assert list(await memory.load()) == TURNS_3
            await go_on(memory)
            stored = await collection.find_one(session)
            assert unmarked(stored["messages"]) == [*AGENT_3, human("and now?"), ai("now")]

    asyncio.run(main())


def sorted_arguments(turn: Turn) -> Turn:
    """jsonb has an order of keys of its own."""
    use = msgspec.structs.replace(USE, arguments='{"id":"call_1","input":"19 * 23"}')
    return msgspec.structs.replace(turn, steps=(Step("", (use,)),))


async def go_on(memory: Memory) -> None:
    loaded = await memory.load()
    assert isinstance(loaded, History)
    assert loaded.notes == ()
    strict.check(loaded)
    await memory.append(Turn("x1", "and now?", "now"))
    assert [turn.user for turn in await memory.load()] == ["my name is Ada", "what is 19 * 23?", "and now?"]


CALL = call("c1", "Calculator", {"input": "1"})


@pytest.mark.parametrize(
    ("messages", "turns", "notes"),
    [
        pytest.param([], [], [], id="nothing"),
        pytest.param(
            [ai("cut off from its question"), result("c1", "x", "2"), human("q"), ai("a")],
            [Turn("", "q", "a")],
            ["messages before the first question were left out (2)"],
            id="a window of n8n",
        ),
        pytest.param(
            [human("a"), human("b"), ai("to a"), ai("to b")],
            [Turn("", "a\n\nb", "to a\n\nto b")],
            ["questions in a row were joined (1)", "answers in a row were joined (1)"],
            id="parallel runs of n8n",
        ),
        pytest.param(
            [human("a"), ai("", CALL), human("b"), ai("b!")],
            [Turn("", "a", "", cut_off=True), Turn("", "b", "b!")],
            ["tool calls without a result were left out (1)", "questions without an answer were marked as cut off (1)"],
            id="a call without a result",
        ),
        pytest.param(
            [human("a"), ai("let me see", CALL, call("c2", "x", {})), result("c2", "x", "2"), result("c9", "x", "3")],
            [Turn("", "a", "", (Step("let me see", (ToolUse("c2", "x", "{}", "2"),)),), cut_off=True)],
            [
                "tool results without a call were left out (1)",
                "tool calls without a result were left out (1)",
                "questions without an answer were marked as cut off (1)",
            ],
            id="half of the calls",
        ),
        pytest.param(
            [human("a"), ai("one"), ai([], CALL), result("c1", "Calculator", "2"), ai("two")],
            [Turn("", "a", "two", (Step("one", (ToolUse("c1", "Calculator", '{"input":"1"}', "2"),)),))],
            [],
            id="a text, then a call",
        ),
        pytest.param(
            [{"type": "system", "data": {"content": "be brief", **REST}}, human("a"), ai("b")],
            [Turn("", "", "", system="be brief"), Turn("", "a", "b")],
            [],
            id="a system message",
        ),
        pytest.param(
            [
                human([{"type": "text", "text": "see"}, {"type": "image_url", "image_url": "…"}]),
                ai([{"text": "ok"}, "!"]),
            ],
            [Turn("", "see\n[image_url]", "ok\n!")],
            [],
            id="blocks",
        ),
        pytest.param(
            ["x", None, {"type": "human"}, {"type": "generic", "data": {}}, human("a"), ai("b")],
            [Turn("", "a", "b")],
            ["messages that are none were left out (3)", "messages of unknown types were left out (1)"],
            id="what is no message",
        ),
    ],
)
def test_damage_is_mended_and_told(messages: list[Any], turns: list[Turn], notes: list[str]) -> None:
    assert read_turns(messages) == (turns, notes)
    strict.check(sendable(turns))


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=4)
IDS = st.sampled_from(["", "a", "b"])
CALLED = st.builds(call, IDS, TEXT, st.none() | st.just("x") | st.dictionaries(TEXT, TEXT, max_size=1))
MESSAGES = st.lists(
    st.one_of(
        st.builds(human, TEXT),
        st.builds(lambda text, calls: ai(text, *calls), TEXT | st.just([]), st.lists(CALLED, max_size=3)),
        st.builds(result, IDS, TEXT, TEXT),
        st.builds(lambda text: {"type": "system", "data": {"content": text}}, TEXT),
        st.from_type(type(None)) | TEXT | st.builds(lambda kind: {"type": kind, "data": {"content": 1}}, TEXT),
    ),
    max_size=14,
)


@given(MESSAGES)
def test_whatever_is_stored_can_be_sent(messages: list[Any]) -> None:
    turns, _ = read_turns(messages)
    loaded = sendable(turns)
    strict.check(loaded)
    asked = [one["data"]["content"] for one in messages if isinstance(one, dict) and one["type"] == "human"]
    assert "".join(turn.user for turn in loaded).replace("\n", "") == "".join(asked).replace("\n", "")  # none is lost
    again, notes = read_turns([message for turn in turns for message in stored_messages(turn)])
    assert [note for note in notes if "joined" not in note] == []
    assert len(again) <= len(turns)


def test_calls_that_no_provider_takes_are_mended() -> None:
    step = Step(
        "", (ToolUse("", "web search!", "[1]", "r"), ToolUse("a", "ok", "{}", "r"), ToolUse("a", "", "nope", "r"))
    )
    (mended,) = loaded = sendable([Turn("x", "q", "a", (Step("no calls", ()), step))])
    assert loaded.notes == ("tool calls of 1 turns were mended",)
    assert mended.steps == (
        Step(
            "",
            (
                ToolUse("call", "web_search_", "{}", "r"),
                ToolUse("a", "ok", "{}", "r"),
                ToolUse("a_2", "tool", "{}", "r"),
            ),
        ),
    )
    strict.check(loaded)
