"""The default memory: a Redis list of two elements a turn, so that every worker sees the same session."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn, cast

import structlog
from redis.exceptions import NoPermissionError, RedisError

from convoq import keys
from convoq.contract.execution import ExecutionInfo
from convoq.contract.memory import MAX_SESSION_BYTES, History, Turn, check_size, session_too_large
from convoq.errors import Fenced, MemoryFailed, MemoryUnavailable, Unavailable
from convoq.memory.claims import ClaimedMemory, Claims
from convoq.memory.patience import Troubled
from convoq.memory.repair import elements_of, sendable, turns_of
from convoq.memory.server import Server
from convoq.redis import Argument, load_script

log = structlog.get_logger()

REFUSED, TOO_LARGE = -1, -2
"""What the scripts answer."""

Fence = tuple[str, str]
"""An execution's key and the token of the claim under which it must run, or a write raises `Fenced`."""
CLAIM_TTL_S = 86_400
"""Longer than an execution takes. One that is forgotten earlier is made again."""


class RedisMemory(ClaimedMemory):
    """What the memories in a Redis list share. `ttl_s` 0 is for ever. One round trip each way on convoq's own server,
    where `fence` guards; elsewhere `claims` do."""

    def __init__(
        self,
        server: Server,
        key: str,
        *,
        window: int,
        ttl_s: int,
        fence: Fence | None = None,
        claims: Claims | None = None,
    ) -> None:
        super().__init__(claims)
        self.window = window
        self._server = server
        self._key = key
        self._ttl_s = ttl_s
        self._fence = fence
        self._claims_allowed = True

    async def clear(self) -> None:
        await self._write("replace_turns", 0)

    async def _write(self, script: str, *values: Argument) -> None:
        """Raises `Fenced`, `MemoryFailed`."""
        if self._fence is not None:
            execution, token = self._fence
            if await self._run("write", script, [self._key, execution], token, self._ttl_s, *values) == REFUSED:
                raise Fenced("another attempt has taken this execution over: its turn was not remembered")
            return

        async def step(claim: str | None) -> bool:
            if claim is None or not self._claims_allowed:
                return await self._run("write", script, [self._key], "", self._ttl_s, *values) != REFUSED
            names = [self._key, keys.claims(self._key)]
            return await self._run("write", script, names, claim, self._ttl_s, *values) != REFUSED

        await self._claimed(step)

    async def _claim(self, mine: str, *, begin: bool = False) -> list[str]:
        """A user who may use other keys only has to do without: a write is then asked for before it, and not in it."""
        try:
            found = await self._run("read", "claim_session", [keys.claims(self._key)], mine, CLAIM_TTL_S)
        except MemoryFailed as error:
            if not isinstance(error.__cause__, NoPermissionError):
                raise
            log.warning("redis memory has to do without claims", key=keys.claims(self._key), error=error.message)
            self._claims_allowed = False
            return []
        return [claim.decode() for claim in cast("list[bytes]", found)]

    async def _drop(self, gone: Sequence[str]) -> None:
        await self._command("read", "SREM", keys.claims(self._key), *gone)

    async def _command(self, action: str, *arguments: Argument) -> object:
        try:
            return await self._server.command(*arguments)
        except (RedisError, Unavailable, Troubled) as error:
            self._fail(action, error)

    async def _run(self, action: str, script: str, names: Sequence[str], *arguments: Argument) -> object:
        try:
            reply = await self._server.run(load_script(script), names, arguments)
        except (RedisError, Unavailable, Troubled) as error:
            self._fail(action, error)
        if reply == TOO_LARGE:
            raise session_too_large(f"session {self._key!r}")
        return reply

    def _fail(self, action: str, error: Exception) -> NoReturn:
        failed = MemoryUnavailable if isinstance(error, Unavailable | Troubled) else MemoryFailed
        raise failed(f"cannot {action} the memory {self._key!r}: {error}") from error


class RedisListMemory(RedisMemory):
    """convoq's own format, trimmed to the window at every write."""

    async def _read(self) -> History:
        elements = await self._command("read", "LRANGE", self._key, -2 * self.window, -1)
        return sendable(*turns_of(cast("list[bytes]", elements)))

    async def append(self, turn: Turn) -> None:
        check_size(turn)
        user, assistant = elements_of(turn)
        head = user.index(b',"content":')
        await self._write("append_turn", 2 * self.window, MAX_SESSION_BYTES, head, user, assistant)

    async def replace(self, turns: Sequence[Turn]) -> None:
        check_size(*turns)
        elements = [element for turn in turns[-self.window :] for element in elements_of(turn)]
        await self._write("replace_turns", MAX_SESSION_BYTES, *elements)


def fence_of(execution: ExecutionInfo) -> Fence | None:
    """What lets only the attempt that holds the execution write. Without an execution (reading, deleting) none."""
    return (keys.execution(execution.id), execution.token) if execution.token else None


class RedisMemories:
    """The memories of one process, by (workflow, session, memory node)."""

    def __init__(self, server: Server) -> None:
        self._server = server

    def __call__(
        self, execution: ExecutionInfo, session: str, node: str, *, window: int, ttl_s: int
    ) -> RedisListMemory:
        key = keys.memory(execution.workflow_id, session, node)
        return RedisListMemory(self._server, key, window=window, ttl_s=ttl_s, fence=fence_of(execution))
