"""The memories that are made of others keep what every memory promises."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest

from convoq.contract.memory import Memory
from convoq.errors import ModelFailed
from convoq.memory.redis_list import RedisMemories
from convoq.memory.summary import Limits, RedisFolds, SummaryMemory
from convoq.memory.window import FittedMemory, FittedView
from tests.memory.backends import RedisBackend, own_redis
from tests.memory.contract import MemoryContract


class FittedBackend(RedisBackend):
    """Measured in turns, the window is the same as any memory's."""

    async def open(self, session: str = "s", node: str = "Memory", *, window: int = 5, ttl_s: int = 3600) -> Memory:
        def open_at(turns: int) -> Memory:
            return RedisMemories(self.pipe)(self.execution, session, node, window=turns, ttl_s=ttl_s)

        return FittedMemory(open_at, window, window, lambda turn: 1, "turns")


class ViewBackend(RedisBackend):
    async def open(self, session: str = "s", node: str = "Memory", *, window: int = 5, ttl_s: int = 3600) -> Memory:
        memory = await super().open(session, node, window=window, ttl_s=ttl_s)
        return FittedView(memory, 1_000_000, lambda turn: 1, "turns")


class SummaryBackend(RedisBackend):
    """Whose model always fails: then it is the memory that it is made of."""

    async def open(self, session: str = "s", node: str = "Memory", *, window: int = 5, ttl_s: int = 3600) -> Memory:
        memory = await super().open(session, node, window=window, ttl_s=ttl_s)

        async def fails(summary: str, turns: Any) -> str:
            raise ModelFailed("overloaded")

        async def pull() -> Any:
            return Limits(2, 0, lambda turn: 0), fails

        return SummaryMemory(memory, RedisFolds(self.pipe), (self.execution, session, node), pull, ttl_s=ttl_s)


class OnRedis(MemoryContract):
    kind: type[RedisBackend]

    @pytest.fixture(autouse=True)
    def _server(self, redis_url: str) -> None:
        self.redis_url = redis_url

    def backend(self) -> AbstractAsyncContextManager[RedisBackend]:
        return own_redis(self.redis_url, self.kind)


class TestFitted(OnRedis):
    kind = FittedBackend


class TestView(OnRedis):
    kind = ViewBackend


class TestSummary(OnRedis):
    kind = SummaryBackend
