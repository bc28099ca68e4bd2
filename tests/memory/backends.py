"""Every memory there is, opened on a real server as a worker opens it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Self

from convoq import keys
from convoq.contract.execution import ExecutionInfo
from convoq.contract.memory import Memory
from convoq.errors import Fenced
from convoq.ids import new_execution_id
from convoq.memory.claims import Claims
from convoq.memory.local import LocalMemories
from convoq.memory.mongo import MongoMemory
from convoq.memory.n8n_list import N8nListMemory
from convoq.memory.pools import Pools
from convoq.memory.postgres import PostgresMemory
from convoq.memory.redis_list import RedisListMemory, RedisMemories
from convoq.redis import Pipe, async_client, load_script


def execution(id: str = "x", workflow: str = "wf") -> ExecutionInfo:
    return ExecutionInfo(id, 1, workflow, "Workflow", "s", "production", 0.0, token="t1")


class Backend:
    """Memories of one workflow, for one running execution. `trims`: what falls out of the window is gone from storage.
    `expires`: idle sessions are. `fences`: a superseded attempt cannot write."""

    trims = True
    expires = True
    fences = True

    async def open(self, session: str = "s", node: str = "Memory", *, window: int = 5, ttl_s: int = 3600) -> Memory:
        raise NotImplementedError

    async def pass_s(self, seconds: int) -> None:
        raise NotImplementedError

    async def supersede(self) -> None:
        """Another attempt takes the execution over."""
        raise NotImplementedError

    def join(self, other: Self) -> None:
        """Be another worker, with connections and an execution of its own, on what that one has."""
        raise NotImplementedError


class LocalBackend(Backend):
    fences = False

    def __init__(self) -> None:
        self._now = 1000.0
        self._memories = LocalMemories(clock=lambda: self._now)

    async def open(self, session: str = "s", node: str = "Memory", *, window: int = 5, ttl_s: int = 3600) -> Memory:
        return self._memories(execution(), session, node, window=window, ttl_s=ttl_s)

    async def pass_s(self, seconds: int) -> None:
        self._now += seconds

    def join(self, other: Self) -> None:
        self._memories = other._memories


class RedisBackend(Backend):
    """convoq's own server and format. Time passes by taking it off the time-to-live that the server has set."""

    def __init__(self, pipe: Pipe) -> None:
        self.pipe = pipe
        self.workflow = new_execution_id()
        self.execution = execution(new_execution_id(), self.workflow)
        self.record = keys.execution(self.execution.id)
        self.fence = (self.record, "t1")

    async def begin(self) -> None:
        await self.pipe.command("HSET", self.record, "status", "running", "token", "t1")
        await self.pipe.command("EXPIRE", self.record, 600)

    def key(self, session: str, node: str) -> str:
        return keys.memory(self.workflow, session, node)

    async def open(self, session: str = "s", node: str = "Memory", *, window: int = 5, ttl_s: int = 3600) -> Memory:
        return RedisMemories(self.pipe)(self.execution, session, node, window=window, ttl_s=ttl_s)

    async def pass_s(self, seconds: int) -> None:
        for key in await self.pipe.command("KEYS", f"*{self.workflow}:*"):
            if b"session" not in key:
                left_ms = await self.pipe.command("PTTL", key)
                assert left_ms > 0
                await self.pipe.command("PEXPIRE", key, left_ms - seconds * 1000)

    async def supersede(self) -> None:
        await self.pipe.command("HSET", self.record, "token", "t2")

    def join(self, other: Self) -> None:
        self.workflow = other.workflow
        self.execution = execution(self.execution.id, other.workflow)

    @property
    def claims(self) -> Claims:
        return Claims(self.execution, self.before_effect, self.pipe)

    async def before_effect(self) -> None:
        """As a worker does it before anything that must not happen twice."""
        if not await self.pipe.run(load_script("mark"), [self.record], ["t1", "effects", 1]):
            raise Fenced("taken over")


class N8nListBackend(RedisBackend):
    """n8n's format on convoq's own server."""

    trims = False

    def key(self, session: str, node: str) -> str:
        return f"n8n:{self.workflow}:{session}/{node}"

    async def open(self, session: str = "s", node: str = "Memory", *, window: int = 5, ttl_s: int = 3600) -> Memory:
        return N8nListMemory(self.pipe, self.key(session, node), window=window, ttl_s=ttl_s, fence=self.fence)


class OtherRedisBackend(N8nListBackend):
    """n8n's format on a server that a credential names."""

    def __init__(self, pipe: Pipe, pools: Pools, fields: dict[str, Any]) -> None:
        super().__init__(pipe)
        self.pools = pools
        self.fields = fields

    async def open(self, session: str = "s", node: str = "Memory", *, window: int = 5, ttl_s: int = 3600) -> Memory:
        server = self.pools.redis(self.fields)
        assert server is not self.pipe
        key = self.key(session, node)
        return N8nListMemory(server, key, window=window, ttl_s=ttl_s, claims=self.claims)


class OtherTrimmedBackend(OtherRedisBackend):
    """convoq's format there."""

    trims = True

    async def open(self, session: str = "s", node: str = "Memory", *, window: int = 5, ttl_s: int = 3600) -> Memory:
        server, key = self.pools.redis(self.fields), self.key(session, node)
        return RedisListMemory(server, key, window=window, ttl_s=ttl_s, claims=self.claims)


class PostgresBackend(OtherRedisBackend):
    trims = expires = False

    async def open(self, session: str = "s", node: str = "Memory", *, window: int = 5, ttl_s: int = 3600) -> Memory:
        table = await self.pools.postgres(self.fields, "n8n_chat_histories")
        return PostgresMemory(table, self.key(session, node), window=window, claims=self.claims)


class MongoBackend(OtherRedisBackend):
    trims = expires = False

    async def open(self, session: str = "s", node: str = "Memory", *, window: int = 5, ttl_s: int = 3600) -> Memory:
        collection = self.pools.mongo(self.fields, "convoq_test", "n8n_chat_histories")
        return MongoMemory(collection, self.key(session, node), window=window, claims=self.claims)


@asynccontextmanager
async def own_redis(url: str, made: type[RedisBackend] = RedisBackend) -> AsyncIterator[RedisBackend]:
    client = async_client(url)
    try:
        async with Pipe(client) as pipe:
            backend = made(pipe)
            await backend.begin()
            yield backend
    finally:
        await client.aclose()


@asynccontextmanager
async def other_server(
    url: str, fields: dict[str, Any], made: type[OtherRedisBackend] = OtherRedisBackend
) -> AsyncIterator[OtherRedisBackend]:
    client, pools = async_client(url), Pools()
    try:
        async with Pipe(client) as pipe:
            backend = made(pipe, pools, fields)
            await backend.begin()
            yield backend
    finally:
        await pools.close()
        await client.aclose()
