"""The default memory: a Redis list of two elements a turn, so that every worker sees the same session."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import NoReturn, Protocol, cast

from redis.exceptions import RedisError

from convoq import keys
from convoq.contract.execution import ExecutionInfo
from convoq.contract.memory import MAX_SESSION_BYTES, History, Turn, check_size, session_too_large
from convoq.errors import Fenced, MemoryFailed, Unavailable
from convoq.memory.repair import elements_of, sendable, turns_of
from convoq.redis import Argument, Script, load_script

FENCED, TOO_LARGE = -1, -2
"""What the writing scripts answer."""

Fence = tuple[str, int]
"""An execution's key and the attempt that must be the one that runs, or a write raises `Fenced`."""


BeforeWrite = Callable[[], Awaitable[None]]
"""Where the server is not convoq's own, a write cannot be fenced in the same step. Awaiting this first raises `Fenced`
for a superseded attempt, and from then on no other attempt is begun; what is left is that an execution may be given up
as lost between the two, and its turn is remembered all the same."""


class Server(Protocol):
    """A Redis server: convoq's own (a `Pipe`), or the one that a credential names."""

    async def command(self, *arguments: Argument) -> object: ...

    async def run(self, script: Script, keys: Sequence[str], arguments: Sequence[Argument]) -> object: ...


class RedisMemory:
    """What the memories in a Redis list share. `ttl_s` 0 is for ever. One round trip each way.

    A fence for convoq's own server, else `before_write`.
    """

    def __init__(
        self,
        server: Server,
        key: str,
        *,
        window: int,
        ttl_s: int,
        fence: Fence | None = None,
        before_write: BeforeWrite | None = None,
    ) -> None:
        self.window = window
        self._server = server
        self._key = key
        self._ttl_s = ttl_s
        self._fence = fence
        self._before_write = before_write

    async def clear(self) -> None:
        await self._write("replace_turns", 0)

    async def _write(self, script: str, *values: Argument) -> None:
        if self._before_write is not None:
            await self._before_write()
        execution, attempt = self._fence or ("", "")
        names = [self._key, execution] if execution else [self._key]
        arguments: list[Argument] = [attempt, self._ttl_s, *values]
        try:
            reply = await self._server.run(load_script(script), names, arguments)
        except (RedisError, Unavailable) as error:
            self._fail("write", error)
        if reply == FENCED:
            raise Fenced(f"attempt {attempt} no longer runs this execution: its turn was not remembered")
        if reply == TOO_LARGE:
            raise session_too_large(f"session {self._key!r}")

    def _fail(self, action: str, error: Exception) -> NoReturn:
        raise MemoryFailed(f"cannot {action} the memory {self._key!r}: {error}") from error


class RedisListMemory(RedisMemory):
    """convoq's own format, trimmed to the window at every write."""

    async def load(self) -> History:
        try:
            elements = await self._server.command("LRANGE", self._key, -2 * self.window, -1)
        except (RedisError, Unavailable) as error:
            self._fail("read", error)
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
    return (keys.execution(execution.id), execution.attempt) if execution.id else None


class RedisMemories:
    """The memories of one process, by (workflow, session, memory node)."""

    def __init__(self, server: Server) -> None:
        self._server = server

    def __call__(
        self, execution: ExecutionInfo, session: str, node: str, *, window: int, ttl_s: int
    ) -> RedisListMemory:
        key = keys.memory(execution.workflow_id, session, node)
        return RedisListMemory(self._server, key, window=window, ttl_s=ttl_s, fence=fence_of(execution))
