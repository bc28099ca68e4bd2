"""The auto-pipelined connection of a process: commands and scripts.

After a broken connection a `Pipe` connects again and sends what is unanswered again: everything sent through it must be
idempotent, and convoq's scripts are. What the server refuses for now (`refusals`) is sent again until `patience_s` is
over. What it had acknowledged and lost is written again (`journal`).
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import Awaitable, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, TypeVar

import structlog
from hiredis import pack_command
from redis.asyncio import Redis as AsyncRedis
from redis.asyncio.connection import AbstractConnection
from redis.exceptions import AuthenticationError, NoScriptError, ResponseError
from redis.exceptions import TimeoutError as RedisTimeout

from convoq.errors import Unavailable
from convoq.redis.connection import REPLY_TIMEOUT_S, Connected, identity_of
from convoq.redis.journal import Journal
from convoq.redis.refusals import ELSEWHERE, PATIENCE_S, RETRY_AFTER_S, refusal, refused
from convoq.redis.scripts import Script

log = structlog.get_logger()

T = TypeVar("T")
Argument = str | bytes | int | float
REFUSED_S = (0.05, 0.1, 0.25, 0.5)
"""How long what was refused waits before it is sent again."""
AGAIN_S = (0.3, 0.3, 0.3, 0.3)
"""The journal is written so many times, this far apart, before anything else is sent: what one process wrote may have
depended on what another one did, and all come back within `RECONNECT_S`."""
CLOSE_S = 0.25
"""How long the end of a process waits for the replies to what it has sent last."""


@dataclass(slots=True, eq=False)
class _Call:
    """`reply` is None where nobody waits: it is of the journal. `said` is what the server refused it with."""

    arguments: tuple[Argument, ...]
    reply: asyncio.Future[Any] | None
    script: Script | None = None
    words: bytes = b""
    sent_at: float = 0.0
    refused_at: float = 0.0
    said: str = ""

    @property
    def over(self) -> bool:
        return self.reply is None or self.reply.done()

    def refuse(self, said: str, now: float) -> None:
        self.refused_at, self.said = self.refused_at or now, said

    def fail(self, error: BaseException) -> None:
        if not self.over:
            assert self.reply is not None
            self.reply.set_exception(error)


class Pipe:
    """The auto-pipelined connection. One per process and event loop; start it with `async with`.

    Commands are written as they come, all that came in one turn of the event loop together, and replies are read as
    they come: nobody waits for anybody's round trip but his own.
    """

    def __init__(self, client: AsyncRedis, *, patience_s: float = PATIENCE_S) -> None:
        self._connected = Connected(client, "commands")
        self._patience_s = patience_s
        self._waiting: deque[_Call] = deque()
        self._unanswered: deque[_Call] = deque()
        self._refused: deque[_Call] = deque()
        self._refusals = 0
        self._journal = Journal()
        self._identity: bytes | None = None
        self._recovering = False
        self._wake = asyncio.Event()
        self._some_refused = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self.renewed_at = -math.inf
        """When this process last met another server than before, or one that was started anew (loop's time, s)."""

    async def __aenter__(self) -> Pipe:
        self._loop = asyncio.get_running_loop()
        self._task = asyncio.create_task(self._run(), name="redis-pipe")
        return self

    async def __aexit__(self, *exc: object) -> None:
        assert self._task is not None
        if (self.trouble or self.away) is None:
            await asyncio.wait({self.send("PING")}, timeout=CLOSE_S)  # replies come in order: all before it is answered
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        await self._connected.drop()

    @property
    def trouble(self) -> str | None:
        """What the server refuses with now, in its words."""
        return next((call.said for call in chain(self._refused, self._unanswered, self._waiting) if call.said), None)

    @property
    def away(self) -> str | None:
        """Why the server does not answer, in a few words; None once it has answered again."""
        return self._connected.away

    def send(self, *arguments: Argument) -> asyncio.Future[Any]:
        """Queue a command; the future gets its reply. Commands are applied in the order of the calls, but for those
        that are refused at first."""
        return self._send(arguments, None)

    async def command(self, *arguments: Argument) -> Any:
        """One command's reply, bytes. Raises `ResponseError`, and `Unavailable` where it is refused for too long."""
        return await self._send(arguments, None)

    async def run(self, script: Script, keys: Sequence[str], arguments: Sequence[Argument]) -> Any:
        """One script's reply, by EVALSHA, or EVAL where the server does not know it yet. Raises as `command` does."""
        return await self.start(script, keys, arguments)

    def start(self, script: Script, keys: Sequence[str], arguments: Sequence[Argument]) -> asyncio.Future[Any]:
        """As `run`, for who does not wait."""
        return self._send(_evalsha(script, keys, arguments), script)

    def remember(self, script: Script, keys: Sequence[str], arguments: Sequence[Argument]) -> None:
        """What is to be run should the server lose what was just written; nothing is sent now."""
        self._journal.add(self._loop.time(), script, _packed(_evalsha(script, keys, arguments)))

    async def within(self, seconds: float, doing: Awaitable[T]) -> T:
        """Something of this pipe, in time. Raises `Unavailable`, with what the server says."""
        try:
            async with asyncio.timeout(seconds):
                return await doing
        except TimeoutError:
            if said := self.trouble:
                raise refused(said) from None
            raise Unavailable(f"Redis does not answer within {seconds:g} s", retry_after=RETRY_AFTER_S) from None

    def _send(self, arguments: tuple[Argument, ...], script: Script | None) -> asyncio.Future[Any]:
        if self._task is None or self._task.done():
            raise Unavailable("the Redis connection of this process is closed")
        reply: asyncio.Future[Any] = self._loop.create_future()
        self._waiting.append(_Call(arguments, reply, script))
        self._wake.set()
        return reply

    async def _run(self) -> None:
        while True:
            try:
                connection = await self._connected.use()
                identity = await identity_of(connection)
                self._wake.set()
                async with asyncio.TaskGroup() as group:
                    group.create_task(self._write(connection, identity))
                    group.create_task(self._read(connection))
                    group.create_task(self._watch())
                    group.create_task(self._send_refused())
            except* AuthenticationError as errors:
                self._refuse(errors.exceptions[0])
                await self._connected.drop(errors)
            except* Exception as errors:  # whatever it was: nobody may wait for a pipe that is dead
                await self._connected.drop(errors.exceptions[0])
                self._broken(errors.exceptions[0])
            await self._connected.pause()

    async def _write(self, connection: AbstractConnection, identity: bytes) -> None:
        if self._identity is not None and (not identity or identity != self._identity):
            self._recovering = True
        if self._recovering:
            await self._write_again(connection)
            self._recovering = False
        self._identity = identity
        while True:
            await self._wake.wait()
            self._wake.clear()
            now = self._loop.time()
            words = []
            while self._waiting:
                call = self._waiting.popleft()
                if not call.over:
                    call.sent_at = now
                    call.words = _packed(call.arguments)
                    self._unanswered.append(call)
                    words.append(call.words)
            if words:
                await connection.send_packed_command([b"".join(words)])

    async def _write_again(self, connection: AbstractConnection) -> None:
        """Another server than before: what it does not have of the last seconds comes first."""
        self.renewed_at = self._loop.time()
        if not self._journal:
            return
        log.warning("redis is another server, or was started anew: the last seconds again", calls=len(self._journal))
        scripts = {call.script for call in self._journal}
        words = [*(_packed(("SCRIPT", "LOAD", script.source)) for script in scripts)]
        words += [call.words for call in self._journal]
        for pause_s in AGAIN_S:
            self._unanswered.extend(_Call((), None, sent_at=self._loop.time()) for _ in words)
            await connection.send_packed_command([b"".join(words)])
            await asyncio.sleep(pause_s)
        self._journal.renew(self._loop.time())

    async def _read(self, connection: AbstractConnection) -> None:
        while True:
            try:
                reply = await connection.read_response(timeout=math.inf, disconnect_on_error=False)
            except NoScriptError:
                call = self._unanswered.popleft()
                if call.script is not None:
                    call.arguments = ("EVAL", call.script.source, *call.arguments[2:])
                    self._waiting.append(call)
                    self._wake.set()
                continue
            except ResponseError as error:
                self._complain(error)
                continue
            self._connected.answered()
            call = self._unanswered.popleft()
            if call.said:
                self._refusals = 0
            if call.script is not None and call.script.again:
                self._journal.add(self._loop.time(), call.script, call.words)
            if not call.over:
                assert call.reply is not None
                call.reply.set_result(reply)

    def _complain(self, error: ResponseError) -> None:
        """The first of the unanswered gets an error. Raises it where it is a matter of the server, not of the call."""
        said = refusal(error)
        if said is None:
            self._unanswered.popleft().fail(error)
        elif said.startswith(ELSEWHERE) or self._unanswered[0].reply is None:
            raise error
        else:
            call = self._unanswered.popleft()
            call.refuse(said, self._loop.time())
            self._refused.append(call)
            self._some_refused.set()

    async def _send_refused(self) -> None:
        """What was refused is sent again, or has waited for too long."""
        while True:
            await self._some_refused.wait()
            self._some_refused.clear()
            await asyncio.sleep(REFUSED_S[min(self._refusals, len(REFUSED_S) - 1)])
            self._refusals += 1
            self._queue([*self._refused, *self._waiting])
            self._wake.set()

    async def _watch(self) -> None:
        """A server that does not answer counts as gone."""
        while True:
            await asyncio.sleep(REPLY_TIMEOUT_S / 5)
            now = self._loop.time()
            if not self._recovering:
                self._journal.prune(now)
            if self._unanswered and now - self._unanswered[0].sent_at > REPLY_TIMEOUT_S:
                raise RedisTimeout(f"no reply for {REPLY_TIMEOUT_S:g} s")

    def _broken(self, error: BaseException) -> None:
        """The connection is gone: what is unanswered is sent again, first. It may be that the server refused all."""
        calls = [*self._unanswered, *self._refused, *self._waiting]
        if said := refusal(error):
            now = self._loop.time()
            for call in calls:
                call.refuse(said, now)
        self._unanswered.clear()
        self._queue(calls)

    def _queue(self, calls: Iterable[_Call]) -> None:
        """All that is to be sent, in this order, but for what was refused for too long."""
        too_old = self._loop.time() - self._patience_s
        self._refused.clear()
        self._waiting.clear()
        for call in calls:
            if call.over:
                continue
            if call.said and call.refused_at < too_old:
                call.fail(refused(call.said))
            else:
                self._waiting.append(call)

    def _refuse(self, error: BaseException) -> None:
        for call in (*self._unanswered, *self._refused, *self._waiting):
            call.fail(Unavailable(f"Redis refused the password: {error}"))
        self._unanswered.clear()
        self._queue(())


def _evalsha(script: Script, keys: Sequence[str], arguments: Sequence[Argument]) -> tuple[Argument, ...]:
    return ("EVALSHA", script.sha, len(keys), *keys, *arguments)


def _packed(arguments: tuple[Argument, ...]) -> bytes:
    words: bytes = pack_command(arguments)  # type: ignore[arg-type]  # its stub says one word
    return words
