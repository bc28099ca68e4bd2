"""The auto-pipelined connection of a process: commands and scripts.

After a broken connection a `Pipe` connects again and sends what is unanswered again: everything sent through it must be
idempotent, and convoq's scripts are.
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hiredis import pack_command

from convoq.errors import Unavailable
from convoq.redis.connection import REPLY_TIMEOUT_S, Connected
from convoq.redis.scripts import Script
from redis.asyncio import Redis as AsyncRedis
from redis.asyncio.connection import AbstractConnection
from redis.exceptions import AuthenticationError, NoScriptError, ReadOnlyError, ResponseError
from redis.exceptions import TimeoutError as RedisTimeout

Argument = str | bytes | int | float


@dataclass(slots=True, eq=False)
class _Call:
    arguments: tuple[Argument, ...]
    reply: asyncio.Future[Any]
    script: Script | None
    sent_at: float = 0.0


class Pipe:
    """The auto-pipelined connection. One per process and event loop; start it with `async with`.

    Commands are written as they come, all that came in one turn of the event loop together, and replies are read as
    they come: nobody waits for anybody's round trip but his own.
    """

    def __init__(self, client: AsyncRedis) -> None:
        self._connected = Connected(client, "commands")
        self._waiting: deque[_Call] = deque()
        self._unanswered: deque[_Call] = deque()
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Pipe:
        self._loop = asyncio.get_running_loop()
        self._task = asyncio.create_task(self._run(), name="redis-pipe")
        return self

    async def __aexit__(self, *exc: object) -> None:
        assert self._task is not None
        await asyncio.wait({self.send("PING")}, timeout=1.0)  # replies come in order: all before it is answered
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        await self._connected.drop()

    def send(self, *arguments: Argument) -> asyncio.Future[Any]:
        """Queue a command; the future gets its reply. Commands are applied in the order of the calls."""
        return self._send(arguments, None)

    async def command(self, *arguments: Argument) -> Any:
        """One command's reply, bytes. Raises `ResponseError`."""
        return await self._send(arguments, None)

    async def run(self, script: Script, keys: Sequence[str], arguments: Sequence[Argument]) -> Any:
        """One script's reply, by EVALSHA, or EVAL where the server does not know it yet."""
        return await self.start(script, keys, arguments)

    def start(self, script: Script, keys: Sequence[str], arguments: Sequence[Argument]) -> asyncio.Future[Any]:
        """As `run`, for who does not wait."""
        return self._send(("EVALSHA", script.sha, len(keys), *keys, *arguments), script)

    def _send(self, arguments: tuple[Argument, ...], script: Script | None) -> asyncio.Future[Any]:
        if self._task is None or self._task.done():
            raise Unavailable("the Redis connection of this process is closed")
        call = _Call(arguments, self._loop.create_future(), script)
        self._waiting.append(call)
        self._wake.set()
        return call.reply

    async def _run(self) -> None:
        while True:
            try:
                connection = await self._connected.use()
                self._wake.set()
                async with asyncio.TaskGroup() as group:
                    group.create_task(self._write(connection))
                    group.create_task(self._read(connection))
                    group.create_task(self._watch())
            except* AuthenticationError as errors:
                self._refuse(errors.exceptions[0])
                await self._connected.drop(errors)
                await self._connected.pause()
            except* Exception as errors:  # whatever it was: nobody may wait for a pipe that is dead
                await self._connected.drop(errors.exceptions[0])
                await self._connected.pause()
            self._waiting.extendleft(reversed(self._unanswered))
            self._unanswered.clear()

    async def _write(self, connection: AbstractConnection) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            now = self._loop.time()
            words = []
            while self._waiting:
                call = self._waiting.popleft()
                if not call.reply.done():
                    call.sent_at = now
                    self._unanswered.append(call)
                    words.append(pack_command(call.arguments))  # type: ignore[arg-type]  # its stub says one word
            if words:
                await connection.send_packed_command([b"".join(words)])

    async def _read(self, connection: AbstractConnection) -> None:
        while True:
            try:
                reply = await connection.read_response(timeout=math.inf, disconnect_on_error=False)
            except NoScriptError:
                call = self._unanswered.popleft()
                assert call.script is not None
                call.arguments = ("EVAL", call.script.source, *call.arguments[2:])
                self._waiting.append(call)
                self._wake.set()
                continue
            except ReadOnlyError:  # a failover: this server is no longer the master
                raise
            except ResponseError as error:
                call = self._unanswered.popleft()
                if not call.reply.done():
                    call.reply.set_exception(error)
                continue
            self._connected.answered()
            call = self._unanswered.popleft()
            if not call.reply.done():
                call.reply.set_result(reply)

    async def _watch(self) -> None:
        """A server that does not answer counts as gone."""
        while True:
            await asyncio.sleep(REPLY_TIMEOUT_S / 5)
            if self._unanswered and self._loop.time() - self._unanswered[0].sent_at > REPLY_TIMEOUT_S:
                raise RedisTimeout(f"no reply for {REPLY_TIMEOUT_S:g} s")

    def _refuse(self, error: BaseException) -> None:
        for call in (*self._unanswered, *self._waiting):
            if not call.reply.done():
                call.reply.set_exception(Unavailable(f"Redis refused the password: {error}"))
        self._unanswered.clear()
        self._waiting.clear()
