"""The same memory within one process, for runs that have no Redis."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from math import inf

from convoq.contract.execution import ExecutionInfo
from convoq.contract.memory import History, Turn, check_size
from convoq.memory.repair import sendable

Key = tuple[str, str, str]


class LocalMemories:
    """The memories of this process, by (workflow, session, memory node). `clock` gives seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._stored: dict[Key, tuple[float, list[Turn]]] = {}

    def __call__(self, execution: ExecutionInfo, session: str, node: str, *, window: int, ttl_s: int) -> LocalMemory:
        return LocalMemory(self, (execution.workflow_id, session, node), window=window, ttl_s=ttl_s)

    def read(self, key: Key) -> list[Turn]:
        expires, turns = self._stored.get(key, (0.0, []))
        return turns if self._clock() < expires else []

    def write(self, key: Key, turns: list[Turn], ttl_s: int) -> None:
        now = self._clock()
        self._stored = {other: held for other, held in self._stored.items() if now < held[0] and other != key}
        if turns:
            self._stored[key] = (now + (ttl_s or inf), turns)


class LocalMemory:
    def __init__(self, memories: LocalMemories, key: Key, *, window: int, ttl_s: int) -> None:
        self.window = window
        self._memories = memories
        self._key = key
        self._ttl_s = ttl_s

    async def load(self) -> History:
        return sendable(self._memories.read(self._key)[-self.window :])

    async def append(self, turn: Turn) -> None:
        check_size(turn)
        turns = self._memories.read(self._key)
        if all(known.id != turn.id for known in turns):
            self._memories.write(self._key, [*turns, turn][-self.window :], self._ttl_s)

    async def replace(self, turns: Sequence[Turn]) -> None:
        check_size(*turns)
        self._memories.write(self._key, list(turns)[-self.window :], self._ttl_s)

    async def clear(self) -> None:
        await self.replace(())
