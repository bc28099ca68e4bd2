"""How convoq talks to Redis: one auto-pipelined connection for commands and scripts, one for pub/sub.

After a broken connection a `Pipe` connects again and sends what is unanswered again: everything sent through it must be
idempotent, and convoq's scripts are.
"""

from __future__ import annotations

import asyncio
import hashlib
import math
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Protocol, cast
from urllib.parse import urlsplit, urlunsplit

import redis
import structlog
from hiredis import pack_command
from redis.asyncio import Redis as AsyncRedis
from redis.asyncio.connection import AbstractConnection, ConnectionPool
from redis.asyncio.sentinel import Sentinel as AsyncSentinel
from redis.exceptions import AuthenticationError, ConnectionError, NoScriptError, ReadOnlyError, ResponseError
from redis.exceptions import TimeoutError as RedisTimeout
from redis.sentinel import Sentinel

from convoq.errors import ConfigError, Unavailable

log = structlog.get_logger()

Argument = str | bytes | int | float
REPLY_TIMEOUT_S = 5.0
"""A server silent for this long counts as gone: longer than a fork for AOF rewriting, shorter than people wait."""
RECONNECT_S = (0.05, 0.1, 0.25, 0.5, 1.0)
CONNECT_ERRORS = (ConnectionError, RedisTimeout, ReadOnlyError, OSError, TimeoutError)


@dataclass(frozen=True)
class Script:
    name: str
    source: bytes
    sha: str


@cache
def load_script(name: str) -> Script:
    """`lua/NAME.lua`, with each line `--!include OTHER` replaced by that file."""
    folder = files("convoq") / "lua"
    lines = []
    for line in (folder / f"{name}.lua").read_text().splitlines():
        if line.startswith("--!include "):
            line = (folder / f"{line.split()[1]}.lua").read_text()
        lines.append(line)
    source = "\n".join(lines).encode()
    return Script(name, source, hashlib.sha1(source, usedforsecurity=False).hexdigest())


def shown_url(url: str) -> str:
    """The URL without its password."""
    parts = urlsplit(url)
    if parts.password is None:
        return url
    return urlunsplit(parts._replace(netloc=f"{parts.username or ''}:…@{parts.netloc.rpartition('@')[2]}"))


def _sentinel(url: str) -> tuple[list[tuple[str, int]], str, int] | None:
    """The parts of `redis+sentinel://host:26379,host2:26379/service/0`, or None for another kind of URL."""
    scheme, _, rest = url.partition("://")
    if scheme != "redis+sentinel":
        return None
    hosts, _, path = rest.partition("/")
    service, _, db = path.partition("/")
    nodes = []
    for host in filter(None, hosts.split(",")):
        name, _, port = host.rpartition(":")
        nodes.append((name or host, int(port) if name else 26379))
    if not nodes or not service:
        raise ConfigError(
            f"CONVOQ_REDIS_URL={shown_url(url)!r}: expected redis+sentinel://HOST:26379[,HOST…]/SERVICE[/DB]"
        )
    return nodes, service, int(db or 0)


def async_client(url: str, *, socket_timeout: float | None = REPLY_TIMEOUT_S) -> AsyncRedis:
    """A client over a blocking pool (redis-py's default pool raises when it is exhausted)."""
    options: dict[str, Any] = {"protocol": 2, "socket_timeout": socket_timeout, "socket_connect_timeout": 3}
    try:
        if parts := _sentinel(url):
            nodes, service, db = parts
            return cast(AsyncRedis, AsyncSentinel(nodes, **options).master_for(service, db=db, **options))
        pool: ConnectionPool = redis.asyncio.BlockingConnectionPool.from_url(
            url, max_connections=20, timeout=REPLY_TIMEOUT_S, **options
        )
        return AsyncRedis.from_pool(pool)
    except ValueError as error:
        raise ConfigError(f"CONVOQ_REDIS_URL={shown_url(url)!r}: {error}") from None


def sync_client(url: str) -> redis.Redis:
    """RQ's kind of client. Where RQ only records commands on it, nothing is sent."""
    try:
        if parts := _sentinel(url):
            nodes, service, db = parts
            return cast(redis.Redis, Sentinel(nodes, protocol=2).master_for(service, db=db, protocol=2))
        return redis.Redis.from_url(url, protocol=2)
    except ValueError as error:
        raise ConfigError(f"CONVOQ_REDIS_URL={shown_url(url)!r}: {error}") from None


class _Connected:
    """A connection that comes back: `use()` gives a live one, `drop()` closes it after a failure."""

    def __init__(self, client: AsyncRedis, label: str) -> None:
        self._pool = client.connection_pool
        self._label = label
        self._connection: AbstractConnection | None = None
        self._failures = 0

    async def use(self) -> AbstractConnection:
        if self._connection is None:
            connection = cast(AbstractConnection, self._pool.make_connection())
            try:
                await connection.connect()
            except AuthenticationError:
                raise
            except BaseException:
                await connection.disconnect(nowait=True)
                raise
            # Its owner keeps time by itself. redis-py would wrap each write in a `wait_for`, which costs a task and, in
            # Python 3.11, can swallow the cancellation of the task that writes: a process that never stops.
            connection.socket_timeout = None
            self._connection = connection
        return self._connection

    def answered(self) -> None:
        """The server replies. Only then it is back: one that still loads its data lets everybody in, too."""
        if self._failures:
            log.info("redis connection is back", connection=self._label, failures=self._failures)
            self._failures = 0

    async def drop(self, error: BaseException | None = None) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.disconnect(nowait=True)
        if error is not None:
            if self._failures == 0:
                log.warning("redis connection lost", connection=self._label, error=repr(error))
            self._failures += 1

    async def pause(self) -> None:
        await asyncio.sleep(RECONNECT_S[min(self._failures, len(RECONNECT_S)) - 1])


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
        self._connected = _Connected(client, "commands")
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


class OnMessage(Protocol):
    def __call__(self, channel: bytes, data: bytes) -> None: ...


class Subscriber:
    """The pub/sub connection of a process. `subscribe` returns once the server has confirmed it.

    `on_reconnect` is called after a lost connection was restored: what was published meanwhile is lost here and must
    be read elsewhere.
    """

    PING_S = 2.0

    def __init__(self, client: AsyncRedis, on_message: OnMessage, on_reconnect: Callable[[], None]) -> None:
        self._connected = _Connected(client, "pubsub")
        self._on_message = on_message
        self._on_reconnect = on_reconnect
        self._confirmed: dict[bytes, asyncio.Future[None]] = {}
        self._outgoing: list[tuple[str, bytes]] = []
        self._wake = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._last_heard = 0.0

    async def __aenter__(self) -> Subscriber:
        self._tasks = [asyncio.create_task(self._run(), name="redis-subscriber")]
        return self

    async def __aexit__(self, *exc: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._connected.drop()

    def subscribe(self, channel: bytes) -> Awaitable[None]:
        confirmed = self._confirmed.get(channel)
        if confirmed is None:
            confirmed = self._confirmed[channel] = asyncio.get_running_loop().create_future()
            self._outgoing.append(("SUBSCRIBE", channel))
            self._wake.set()
        return asyncio.shield(confirmed)

    def unsubscribe(self, channel: bytes) -> None:
        if confirmed := self._confirmed.pop(channel, None):
            confirmed.cancel()
            self._outgoing.append(("UNSUBSCRIBE", channel))
            self._wake.set()

    async def _run(self) -> None:
        first = True
        while True:
            try:
                connection = await self._connected.use()
                self._outgoing = [("SUBSCRIBE", channel) for channel in self._confirmed]
                self._last_heard = asyncio.get_running_loop().time()
                self._wake.set()
                if not first:
                    self._on_reconnect()
                first = False
                async with asyncio.TaskGroup() as group:
                    group.create_task(self._write(connection))
                    group.create_task(self._read(connection))
            except* Exception as errors:  # whatever it was: nobody may wait for a subscriber that is dead
                await self._connected.drop(errors.exceptions[0])
                await self._connected.pause()

    async def _write(self, connection: AbstractConnection) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                async with asyncio.timeout(self.PING_S):
                    await self._wake.wait()
            except TimeoutError:
                if loop.time() - self._last_heard > REPLY_TIMEOUT_S:
                    raise RedisTimeout(f"no answer to PING for {REPLY_TIMEOUT_S:g} s") from None
                await connection.send_packed_command(connection.pack_command("PING"))
                continue
            self._wake.clear()
            outgoing, self._outgoing = self._outgoing, []
            if outgoing:
                await connection.send_packed_command(connection.pack_commands(outgoing))

    async def _read(self, connection: AbstractConnection) -> None:
        loop = asyncio.get_running_loop()
        while True:
            kind, channel, *rest = await connection.read_response(timeout=math.inf)  # a pong has no third part
            self._last_heard = loop.time()
            self._connected.answered()
            if kind == b"message":
                self._on_message(channel, rest[0])
            elif kind == b"subscribe" and (confirmed := self._confirmed.get(channel)) and not confirmed.done():
                confirmed.set_result(None)
