"""The pub/sub connection of a process."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable
from typing import Protocol

from redis.asyncio import Redis as AsyncRedis
from redis.asyncio.connection import AbstractConnection
from redis.exceptions import TimeoutError as RedisTimeout

from convoq.redis.connection import REPLY_TIMEOUT_S, Connected


class OnMessage(Protocol):
    def __call__(self, channel: bytes, data: bytes) -> None: ...


class Subscriber:
    """The pub/sub connection of a process. `subscribe` returns once the server has confirmed it.

    `on_reconnect` is called after a lost connection was restored: what was published meanwhile is lost here and must
    be read elsewhere.
    """

    PING_S = 2.0

    def __init__(self, client: AsyncRedis, on_message: OnMessage, on_reconnect: Callable[[], None]) -> None:
        self._connected = Connected(client, "pubsub")
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
