"""The default memory: a Redis list of two elements a turn, so that every worker sees the same session."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

import structlog
from redis.exceptions import RedisError

from convoq import keys
from convoq.errors import Fenced, MemoryFailed, Unavailable
from convoq.memory.base import MAX_TURN_BYTES, Turn
from convoq.memory.repair import elements_of, turns_of
from convoq.nodes.base import ExecutionInfo
from convoq.redis import Argument, Pipe, load_script

log = structlog.get_logger()

FENCED = -1


class RedisListMemory:
    """One round trip each way. Writes are fenced by (execution's key, attempt) where `fence` is given: they raise
    `Fenced` unless that attempt is the one that runs."""

    def __init__(self, pipe: Pipe, key: str, *, window: int, ttl_s: int, fence: tuple[str, int] | None = None) -> None:
        self.window = window
        self._pipe = pipe
        self._key = key
        self._ttl_s = ttl_s
        self._fence = fence

    async def load(self) -> Sequence[Turn]:
        try:
            elements = await self._pipe.command("LRANGE", self._key, -2 * self.window, -1)
        except (RedisError, Unavailable) as error:
            self._fail("read", error)
        turns, left_out = turns_of(elements)
        if left_out:
            log.warning("memory holds what is not a whole turn", key=self._key, elements=left_out)
        return turns

    async def append(self, turn: Turn) -> None:
        user, assistant = elements_of(turn)
        if (size := len(user) + len(assistant)) > MAX_TURN_BYTES:
            raise MemoryFailed(f"turn {turn.id!r} is too large to be remembered: {size} bytes of {MAX_TURN_BYTES}")
        await self._write("append_turn", user.index(b',"content":'), user, assistant)

    async def replace(self, turns: Sequence[Turn]) -> None:
        await self._write("replace_turns", *(element for turn in turns for element in elements_of(turn)))

    async def clear(self) -> None:
        await self.replace(())

    async def _write(self, script: str, *values: bytes | int) -> None:
        execution, attempt = self._fence or ("", "")
        names = [self._key, execution] if execution else [self._key]
        arguments: list[Argument] = [attempt, 2 * self.window, self._ttl_s, *values]
        try:
            reply = await self._pipe.run(load_script(script), names, arguments)
        except (RedisError, Unavailable) as error:
            self._fail("write", error)
        if reply == FENCED:
            raise Fenced(f"attempt {attempt} no longer runs this execution: its turn was not remembered")

    def _fail(self, action: str, error: Exception) -> NoReturn:
        raise MemoryFailed(f"cannot {action} the memory {self._key!r}: {error}") from error


class RedisMemories:
    """The memories of one process, by (workflow, session, memory node)."""

    def __init__(self, pipe: Pipe) -> None:
        self._pipe = pipe

    def __call__(
        self, execution: ExecutionInfo, session: str, node: str, *, window: int, ttl_s: int
    ) -> RedisListMemory:
        key = keys.memory(execution.workflow_id, session, node)
        fence = (keys.execution(execution.id), execution.attempt)
        return RedisListMemory(self._pipe, key, window=window, ttl_s=ttl_s, fence=fence)
