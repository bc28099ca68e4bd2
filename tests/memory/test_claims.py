"""Fencing on servers that are not convoq's own: what a stopped attempt still sends is refused there, in the write."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from convoq import keys
from convoq.contract.memory import Memory
from convoq.errors import Fenced
from convoq.memory.claims import ClaimedMemory
from tests.memory.backends import (
    MongoBackend,
    OtherRedisBackend,
    OtherTrimmedBackend,
    PostgresBackend,
    other_server,
)
from tests.memory.contract import TOOLS, numbered, turn
from tests.memory.test_memories import redis_fields

KINDS = {"redis": OtherRedisBackend, "trimmed": OtherTrimmedBackend, "postgres": PostgresBackend, "mongo": MongoBackend}
WRITES: dict[str, Callable[[Memory], Awaitable[None]]] = {
    "append": lambda memory: memory.append(turn(9, TOOLS)),
    "replace": lambda memory: memory.replace([turn(9)]),
    "clear": lambda memory: memory.clear(),
}


@dataclass
class Elsewhere:
    """Workers on one server that a credential names."""

    kind: str
    redis_url: str
    fields: dict[str, Any]

    @asynccontextmanager
    async def workers(self) -> AsyncIterator[tuple[OtherRedisBackend, OtherRedisBackend]]:
        """Two with an execution each, on the same sessions."""
        made = KINDS[self.kind]
        async with (
            other_server(self.redis_url, self.fields, made) as one,
            other_server(self.redis_url, self.fields, made) as two,
        ):
            two.join(one)
            yield one, two

    async def claims(self, backend: OtherRedisBackend) -> list[Any]:
        """What is left beside the session."""
        key = backend.key("s", "Memory")
        if self.kind == "postgres":
            table = await backend.pools.postgres(self.fields, "n8n_chat_histories")
            return await table.fetch("SELECT * FROM n8n_chat_histories_convoq_claims WHERE session_id = $1", key)
        if self.kind == "mongo":
            collection = await backend.pools.mongo(self.fields, "convoq_test", "n8n_chat_histories").open()
            claims: list[Any] = (await collection.find_one({"sessionId": key}))["convoq"]["claims"]
            return claims
        return list(await backend.pipe.command("SMEMBERS", keys.claims(key)))


@pytest.fixture(params=KINDS)
def elsewhere(
    request: pytest.FixtureRequest, redis_url: str, postgres_fields: dict[str, Any], mongo_fields: dict[str, Any]
) -> Elsewhere:
    fields = {"postgres": postgres_fields, "mongo": mongo_fields}.get(request.param, redis_fields(redis_url))
    return Elsewhere(request.param, redis_url, fields)


def pause_after_confirming(memory: Memory, meanwhile: Callable[[], Awaitable[None]]) -> None:
    """What its next write does between asking whether it may and writing."""
    assert isinstance(memory, ClaimedMemory)
    claims = memory._claims
    assert claims is not None
    confirm, rest = claims.confirm, [meanwhile]

    async def paused() -> None:
        await confirm()
        while rest:
            await rest.pop()()

    claims.confirm = paused


@pytest.mark.parametrize("write", WRITES)
def test_a_write_under_way_when_its_execution_was_given_up(elsewhere: Elsewhere, write: str) -> None:
    async def main() -> None:
        async with elsewhere.workers() as (late, next_one):
            memory = await late.open()
            await memory.append(turn(1))
            assert numbered(await memory.load()) == [1]

            async def meanwhile() -> None:
                await late.pipe.command("HSET", late.record, "status", "error")
                newer = await next_one.open()
                assert numbered(await newer.load()) == [1]
                await newer.append(turn(2))

            pause_after_confirming(memory, meanwhile)
            with pytest.raises(Fenced):
                await WRITES[write](memory)
            assert numbered(await (await next_one.open()).load()) == [1, 2]

    asyncio.run(main())


def test_between_another_s_load_and_write_nothing_gets_in(elsewhere: Elsewhere) -> None:
    async def main() -> None:
        async with elsewhere.workers() as (late, next_one):
            memory, newer = await late.open(), await next_one.open()
            await memory.append(turn(1))
            await memory.load()

            async def meanwhile() -> None:
                await late.pipe.command("HSET", late.record, "token", "t2")
                assert numbered(await newer.load()) == [1]

            pause_after_confirming(memory, meanwhile)
            with pytest.raises(Fenced):
                await memory.append(turn(2))
            await newer.append(turn(3))
            assert numbered(await newer.load()) == [1, 3]

    asyncio.run(main())


def test_executions_that_run_at_the_same_time_keep_their_claims(elsewhere: Elsewhere) -> None:
    """They may share a session by a key of their own."""

    async def main() -> None:
        async with elsewhere.workers() as (one, two):
            first, second = await one.open(), await two.open()
            for memory in (first, second, first):
                await memory.load()
            await second.append(turn(2))
            await first.append(turn(1))
            assert numbered(await first.load()) == [2, 1]

    asyncio.run(main())


def test_a_claim_that_is_gone_is_made_again(elsewhere: Elsewhere) -> None:
    """The server forgot it, it was used by an earlier write, or nothing was loaded; and none stays behind."""

    async def main() -> None:
        async with elsewhere.workers() as (one, _):
            memory = await one.open()
            await memory.load()
            await memory.append(turn(1))
            await memory.append(turn(2))
            assert await elsewhere.claims(one) == []
            await (await one.open()).replace([turn(3)])
            await (await one.open()).append(turn(3))
            assert await elsewhere.claims(one) == []
            assert numbered(await (await one.open()).load()) == [3]
            assert len(await elsewhere.claims(one)) == 1
            await one.pipe.command("HSET", one.record, "status", "success")
            assert numbered(await (await one.open()).load()) == [3]
            assert len(await elsewhere.claims(one)) == 1  # the other one was nobody's any more

    asyncio.run(main())


def test_a_superseded_attempt_that_comes_back_harms_nobody(elsewhere: Elsewhere) -> None:
    async def main() -> None:
        async with elsewhere.workers() as (late, next_one):
            memory, newer = await late.open(), await next_one.open()
            await newer.load()
            await late.supersede()
            await memory.load()
            for write in WRITES.values():
                with pytest.raises(Fenced):
                    await write(memory)
            await newer.append(turn(1))
            assert numbered(await newer.load()) == [1]

    asyncio.run(main())
