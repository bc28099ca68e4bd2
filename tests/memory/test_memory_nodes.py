"""Which session a memory node opens, where, and how much of it."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from convoq.contract.connections import MEMORY
from convoq.contract.execution import ExecutionInfo
from convoq.contract.items import Item
from convoq.contract.memory import MAX_WINDOW, Memory, Step, ToolUse, Turn
from convoq.contract.services import Services
from convoq.credentials.file import read_credentials
from convoq.engine.reading import parse_workflow
from convoq.engine.run import WorkflowRun
from convoq.engine.workflow import Workflow
from convoq.errors import ConfigError, ConvoqError, NodeFailed
from convoq.memory.local import LocalMemories
from convoq.memory.mongo import MongoMemory
from convoq.memory.n8n_list import N8nListMemory
from convoq.memory.parts import MemoryParts
from convoq.memory.pools import Pools
from convoq.memory.postgres import PostgresMemory
from convoq.memory.redis_list import RedisListMemory
from convoq.nodes.registry import REGISTRY
from convoq.redis import Pipe, async_client
from convoq.settings import Settings
from tests.agent.harness import AGENT, SIMPLE_MEMORY, TRIGGER, ScriptedModel, no_http, node, run_agent
from tests.memory.contract import turn
from tests.memory.test_memories import redis_fields
from tests.stack import Stack, chat_workflow

LC = "@n8n/n8n-nodes-langchain"
KINDS = {"memoryRedisChat": "redis", "memoryPostgresChat": "postgres", "memoryMongoDbChat": "mongoDb"}


def workflow(kind: str, version: float, /, **parameters: Any) -> Workflow:
    memory = node("My Memory!", f"{LC}.{kind}", version, parameters=parameters)
    if kind in KINDS:
        memory["credentials"] = {KINDS[kind]: {"id": "c1", "name": "mine"}}
    wire = {"My Memory!": "ai_memory", "Model": "ai_languageModel"}
    connections: dict[str, Any] = {
        name: {port: [[{"node": "Agent", "type": port, "index": 0}]]} for name, port in wire.items()
    }
    connections["Chat"] = {"main": [[{"node": "Agent", "type": "main", "index": 0}]]}
    nodes = [
        node("Chat", TRIGGER, 1.1, webhookId="h"),
        node("Agent", AGENT, 2),
        node("Model", "convoq.lmChatMock"),
        memory,
    ]
    return parse_workflow(
        {"id": "wf", "name": "W", "nodes": nodes, "connections": connections}, source="test", registry=REGISTRY
    )


async def opened(
    kind: str,
    version: float,
    fields: Mapping[str, Any] | None,
    *,
    pools: Pools | None = None,
    json: Mapping[str, Any] = {"sessionId": "s"},
    open_memory: Any = None,
    **parameters: Any,
) -> Memory:
    pools = pools or Pools()

    async def credential(kind: str, reference: Mapping[str, Any]) -> Mapping[str, Any] | None:
        return fields

    services = Services(
        Settings(memory_ttl_s=77),
        open_memory or LocalMemories(),
        no_http,
        credential=credential,
        parts=[MemoryParts(pools=pools)],
    )
    info = ExecutionInfo("x", 1, "wf", "W", "from the trigger", "production", 0.0, token="t1")
    run = WorkflowRun(workflow(kind, version, **parameters), info, services)
    try:
        (supplied,) = await run.context("Agent", [Item(dict(json))]).supplied(MEMORY)
        memory: Memory = supplied.value
        return memory
    finally:
        await pools.close()


@pytest.mark.parametrize(
    ("version", "parameters", "key", "window"),
    [
        (1, {}, "s", MAX_WINDOW),
        (1, {"sessionKey": "k"}, "k", MAX_WINDOW),
        (1.1, {"sessionKey": "={{ $json.sessionId }}"}, "s", MAX_WINDOW),
        (1.2, {"contextWindowLength": 3}, "s", MAX_WINDOW),
        (1.3, {"contextWindowLength": 3}, "s", 3),
        (1.4, {}, "s", 5),
        (1.5, {"sessionKey": "ignored"}, "s", 5),
        (1.5, {"sessionIdType": "customKey", "sessionKey": "=k-{{ $json.sessionId }}"}, "k-s", 5),
        (1.6, {}, "s__My_Memory_", 5),
        (1.6, {"sessionIdType": "customKey", "sessionKey": "k"}, "k", 5),
    ],
)
def test_redis_keys_and_windows(version: float, parameters: dict[str, Any], key: str, window: int) -> None:
    memory = asyncio.run(opened("memoryRedisChat", version, {"host": "h"}, **parameters))
    assert isinstance(memory, N8nListMemory)
    assert (memory._key, memory.window, memory._ttl_s) == (key, window, 0)


def test_redis_formats_and_time_to_live() -> None:
    trimmed = asyncio.run(opened("memoryRedisChat", 1.5, {"host": "h"}, format="convoq", sessionTTL=60))
    assert isinstance(trimmed, RedisListMemory)
    assert (trimmed._key, trimmed._ttl_s) == ("s", 60)


@pytest.mark.parametrize(("parameters", "ttl_s"), [({}, 77), ({"sessionTTL": 9}, 9)])
def test_redis_without_a_credential_is_convoqs_own(parameters: dict[str, Any], ttl_s: int) -> None:
    seen: list[Any] = []

    def open_memory(execution: Any, session: str, node: str, *, window: int, ttl_s: int) -> Any:
        seen.append((session, node, window, ttl_s))
        return LocalMemories()(execution, session, node, window=window, ttl_s=ttl_s)

    asyncio.run(opened("memoryRedisChat", 1.6, None, open_memory=open_memory, **parameters))
    assert seen == [("s", "My Memory!", 5, ttl_s)]


@pytest.mark.parametrize(
    "key", ["convoq:exec:x", "convoq:rq:queue:chat", "rq:queue:chat", "staging:lease", "staging:mem:w:s:Memory"]
)
def test_a_session_cannot_be_a_key_of_convoq(key: str) -> None:
    with pytest.raises(NodeFailed, match="is like the keys of convoq itself"):
        asyncio.run(opened("memoryRedisChat", 1.5, {"host": "h"}, json={"sessionId": key}))


def test_a_credential_for_convoqs_own_redis_is_fenced(redis_url: str) -> None:
    async def main() -> None:
        client = async_client(redis_url)
        async with Pipe(client) as pipe:
            for host in ("127.0.0.1", "localhost"):
                pools = Pools(pipe, redis_url)
                fields = {**redis_fields(redis_url), "host": host}
                memory = await opened("memoryRedisChat", 1.5, fields, pools=pools)
                assert isinstance(memory, N8nListMemory)
                assert (memory._server, memory._fence) == (pipe, ("convoq:exec:x", "t1"))
            other = await opened("memoryRedisChat", 1.5, {**fields, "database": 1}, pools=Pools(pipe, redis_url))
            assert isinstance(other, N8nListMemory)
            assert other._fence is None
        await client.aclose()

    asyncio.run(main())


@pytest.mark.parametrize(
    ("version", "parameters", "key", "window", "table"),
    [
        (1, {}, "s", MAX_WINDOW, "n8n_chat_histories"),
        (1.1, {"sessionKey": "ignored"}, "s", 5, "n8n_chat_histories"),
        (1.3, {"tableName": "t", "contextWindowLength": 9}, "s", 9, "t"),
        (1.4, {}, "s__My_Memory_", 5, "n8n_chat_histories"),
        (1.4, {"sessionIdType": "customKey", "sessionKey": "k"}, "k", 5, "n8n_chat_histories"),
    ],
)
def test_postgres(version: float, parameters: dict[str, Any], key: str, window: int, table: str) -> None:
    memory = asyncio.run(opened("memoryPostgresChat", version, {"host": "h"}, **parameters))
    assert isinstance(memory, PostgresMemory)
    assert (memory._session, memory.window, memory._table.name) == (key, window, table)


@pytest.mark.parametrize(
    ("version", "parameters", "key", "name"),
    [
        (1, {}, "s", "db.n8n_chat_histories"),
        (1.1, {"collectionName": "c", "databaseName": "d"}, "s__My_Memory_", "d.c"),
    ],
)
def test_mongo(version: float, parameters: dict[str, Any], key: str, name: str) -> None:
    memory = asyncio.run(opened("memoryMongoDbChat", version, {"database": "db"}, **parameters))
    assert isinstance(memory, MongoMemory)
    assert (memory._session, memory._collection.name) == ({"sessionId": key}, name)


@pytest.mark.parametrize("kind", ["memoryPostgresChat", "memoryMongoDbChat"])
def test_a_credential_that_is_not_known(kind: str) -> None:
    with pytest.raises(NodeFailed, match="credential 'mine' is not known") as failed:
        asyncio.run(opened(kind, 1, None))
    assert failed.value.details["node"] == "My Memory!"


@pytest.mark.parametrize(
    ("kind", "module", "extra"),
    [("memoryPostgresChat", "asyncpg", "convoq[postgres]"), ("memoryMongoDbChat", "pymongo", "convoq[mongo]")],
)
def test_an_extra_that_is_not_installed(kind: str, module: str, extra: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(NodeFailed) as failed:
        asyncio.run(opened(kind, 1, {"host": "h", "database": "d"}))
    assert f"pip install '{extra}'" in failed.value.message


@pytest.mark.parametrize(
    ("kind", "version", "said"),
    [
        ("memoryZep", 1, "Zep memory is deprecated"),
        ("memoryXata", 1.5, "Xata memory is deprecated"),
        ("memoryMotorhead", 1.4, "Motorhead memory is deprecated"),
    ],
)
def test_retired_memories_are_simple_ones_with_a_warning(kind: str, version: float, said: str) -> None:
    (warning,) = workflow(kind, version).warnings
    assert warning.startswith(f"'My Memory!': {said}")
    memories = LocalMemories()
    memory = asyncio.run(opened(kind, version, None, open_memory=memories))
    asyncio.run(memory.append(turn(1)))
    assert len(memories.read(("wf", "s", "My Memory!"))) == 1


def test_credentials_by_id_then_name_and_only_of_their_type(tmp_path: Path) -> None:
    file = tmp_path / "c.json"
    file.write_text(json.dumps({"c1": {"redis": {"host": "by id"}}, "mine": {"redis": {"host": "by name"}}}))
    held = read_credentials(str(file))

    def found(kind: str, reference: Mapping[str, Any]) -> Mapping[str, Any] | None:
        return asyncio.run(held(kind, reference))

    assert found("redis", {"id": "c1", "name": "mine"}) == {"host": "by id"}
    assert found("redis", {"id": "c9", "name": "mine"}) == {"host": "by name"}
    assert found("postgres", {"id": "c1", "name": "mine"}) is None
    assert found("redis", {"id": None}) is None
    assert "by id" not in repr(held)
    assert asyncio.run(read_credentials(None)("redis", {"id": "c1"})) is None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{hush", "is not JSON"),
        ("[]", "should be {credential type"),
        ('{"a": {"host": "hush"}}', "'a' should be {credential type"),
        (None, "cannot be read: No such file"),
    ],
)
def test_a_credentials_file_that_is_none(tmp_path: Path, text: str | None, said: str) -> None:
    file = tmp_path / "c.json"
    if text is not None:
        file.write_text(text)
    with pytest.raises(ConfigError) as failed:
        read_credentials(str(file))
    assert said in failed.value.message
    assert str(file) in failed.value.message
    assert "hush" not in failed.value.message


def with_memory(path: str, memory: Mapping[str, Any]) -> dict[str, Any]:
    definition = chat_workflow(path, mode="lastNode", loadPreviousSession="memory")
    definition["nodes"][3] |= memory
    return definition


@pytest.mark.slow
def test_each_memory_in_the_product(
    folder: Path, redis_url: str, postgres_fields: dict[str, Any], mongo_fields: dict[str, Any]
) -> None:
    """A chat with tools, its history in the next turn and in `loadPreviousSession`, its runs in the run data."""
    credentials = folder / "credentials.json"
    known = {"redis": {**redis_fields(redis_url), "database": 3}, "postgres": postgres_fields, "mongoDb": mongo_fields}
    credentials.write_text(json.dumps({"c": known}))
    stack = Stack(folder, redis_url, env={"CONVOQ_CREDENTIALS": str(credentials), "CONVOQ_QUEUE": "memories"})
    memories: dict[str, dict[str, Any]] = {
        "m-simple": {},
        "m-redis": {"type": f"{LC}.memoryRedisChat", "typeVersion": 1.6, "credentials": {"redis": {"id": "c"}}},
        "m-postgres": {
            "type": f"{LC}.memoryPostgresChat",
            "typeVersion": 1.4,
            "credentials": {"postgres": {"id": "c"}},
        },
        "m-mongo": {"type": f"{LC}.memoryMongoDbChat", "typeVersion": 1.1, "credentials": {"mongoDb": {"id": "c"}}},
        "m-zep": {"type": f"{LC}.memoryZep", "typeVersion": 1.3},
    }
    try:
        stack.start_api()
        stack.start_worker()
        stack.start_worker()
        stack.wait_ready(workers=2)
        for path, memory in memories.items():
            reply = stack.request("POST", "/api/v1/workflows", with_memory(path, memory))
            assert reply.status == 201, reply.body
            assert bool(reply.json["warnings"]) == (path == "m-zep")
            for text in ("my name is Ada", "what is 19 * 23?", "what is my name?"):
                reply = stack.say(path, text)
                assert reply.status == 200, reply.body
            assert "Ada" in reply.json["output"]
            load, append = [
                run
                for run in stack.execution(reply.headers["x-execution-id"])["data"]
                if run["connection"] == "ai_memory"
            ]
            assert (load["inputs"], load["outputs"]) == ([[{"action": "load"}]], [[{"turns": 2}]])
            assert append["inputs"][0][0]["action"] == "append"
            previous = stack.request("POST", f"/webhook/{path}", {"action": "loadPreviousSession", "sessionId": "s"})
            shown = [message["kwargs"]["content"] for message in previous.json["data"]]
            assert shown[:1] + shown[2:3] + shown[4:5] == ["my name is Ada", "what is 19 * 23?", "what is my name?"]
            assert len(shown) == 6
    finally:
        stack.stop()


def test_what_was_mended_is_told_in_the_run_data() -> None:
    memories = LocalMemories()
    use = ToolUse("c1", "Search", "no JSON", "found")
    memories.write(("wf", "s", "Memory"), [Turn("x0", "q", "a", (Step("", (use,)),))], 60)
    model = ScriptedModel([["ok"]])
    bench = run_agent({"Model": model}, memory=SIMPLE_MEMORY, memories=memories)
    load, append = bench.runs_of("Memory")
    assert (load.inputs, load.outputs) == (
        [[{"action": "load"}]],
        [[{"turns": 1, "notes": ["tool calls of 1 turns were mended"]}]],
    )
    assert (append.inputs, append.outputs) == ([[{"action": "append", "turn": "x1:Agent:0:0"}]], [])


def test_errors_name_the_node() -> None:
    for kind, parameters in (
        ("memoryRedisChat", {"contextWindowLength": 0}),
        ("memoryPostgresChat", {"tableName": "a b"}),
    ):
        with pytest.raises(ConvoqError) as failed:
            asyncio.run(opened(kind, 1.4, {"host": "h"}, **parameters))
        assert failed.value.details["node"] == "My Memory!"
