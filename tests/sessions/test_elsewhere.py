"""Deleting a session reaches the memories that live on other servers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import asyncpg
import pytest
import redis

from tests.postgres import postgres
from tests.stack import Stack, chat_workflow, valkey

SECRET = "my name is Marguerite"


def workflow(path: str, kind: str, credential: str) -> dict[str, Any]:
    made = chat_workflow(path)
    memory = next(node for node in made["nodes"] if node["name"] == "Memory")
    memory |= {"type": f"@n8n/n8n-nodes-langchain.{kind}", "typeVersion": 1.3}
    memory["credentials"] = {credential: {"id": credential, "name": credential}}
    return made


@pytest.fixture(scope="module")
def elsewhere(
    redis_url: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Stack, redis.Redis, dict[str, Any]]]:
    folder = tmp_path_factory.mktemp("elsewhere")
    with valkey(folder / "other", save="") as other, postgres() as database:
        file = folder / "credentials.json"
        server = {"host": "127.0.0.1", "port": other.port}
        file.write_text(json.dumps({"redis": {"redis": server}, "postgres": {"postgres": database}}))
        stack = Stack(folder, redis_url, env={"CONVOQ_CREDENTIALS": str(file), "CONVOQ_QUEUE": "elsewhere"})
        try:
            stack.start_api()
            stack.start_worker()
            stack.wait_ready()
            with redis.Redis.from_url(other.connection_url) as client:
                yield stack, client, database
        finally:
            stack.stop()


def rows(database: dict[str, Any], text: str) -> int:
    async def count() -> int:
        fields = {name: database[name] for name in ("host", "port", "user", "database")}
        connection = await asyncpg.connect(**fields)
        try:
            found = await connection.fetchval(
                "SELECT count(*) FROM n8n_chat_histories WHERE message::text LIKE $1", f"%{text}%"
            )
            return int(found)
        finally:
            await connection.close()

    return asyncio.run(count())


def test_redis_and_postgres_of_ones_own(elsewhere: tuple[Stack, redis.Redis, dict[str, Any]]) -> None:
    stack, client, database = elsewhere
    stack.install(workflow("own-redis", "memoryRedisChat", "redis"))
    stack.install(workflow("own-postgres", "memoryPostgresChat", "postgres"))
    for path in ("own-redis", "own-postgres"):
        for session in ("ann", "bob"):
            assert stack.say(path, SECRET, session).text == "Nice to meet you, Marguerite."
            assert stack.say(path, "What is my name?", session).text == "Your name is Marguerite."
    assert sorted(client.keys()) == [b"ann", b"bob"]
    before = rows(database, "Marguerite")
    for path in ("own-redis", "own-postgres"):
        reply = stack.request("DELETE", f"/api/v1/workflows/wf-{path}/sessions/ann")
        assert (reply.status, reply.json["notCleared"]) == (200, [])
    assert client.keys() == [b"bob"]
    assert rows(database, "Marguerite") == before / 2
    assert stack.say("own-postgres", "What is my name?", "ann").text == "I do not know your name yet."


def test_a_server_that_is_away_is_told_and_can_be_asked_again(
    elsewhere: tuple[Stack, redis.Redis, dict[str, Any]], folder: Path
) -> None:
    stack, client, _ = elsewhere
    stack.install(workflow("away", "memoryRedisChat", "redis"))
    assert stack.say("away", SECRET, "cat").text == "Nice to meet you, Marguerite."
    client.config_set("maxclients", 1)
    client.client_kill_filter(_type="normal", skipme=True)
    try:
        reply = stack.request("DELETE", "/api/v1/workflows/wf-away/sessions/cat")
        assert reply.status == 207
        assert "Memory" in reply.json["notCleared"][0]
        assert client.exists("cat")
    finally:
        client.config_set("maxclients", 100)
    assert stack.request("DELETE", "/api/v1/workflows/wf-away/sessions/cat").status == 404  # nothing of it is left here
    assert not client.exists("cat")
