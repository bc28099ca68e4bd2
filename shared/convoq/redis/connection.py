"""One connection of this process to Redis that comes back after a failure."""

from __future__ import annotations

import asyncio
import re
from typing import cast

import structlog
from redis.asyncio import Redis as AsyncRedis
from redis.asyncio.connection import AbstractConnection
from redis.exceptions import AuthenticationError, ConnectionError, ReadOnlyError, ResponseError
from redis.exceptions import TimeoutError as RedisTimeout

from convoq.redis.reasons import reason
from convoq.redis.refusals import refusal

log = structlog.get_logger()

REPLY_TIMEOUT_S = 5.0
"""A server silent for this long counts as gone: longer than a fork for AOF rewriting, shorter than people wait."""
RECONNECT_S = (0.05, 0.1, 0.25, 0.5)
CONNECT_ERRORS = (ConnectionError, RedisTimeout, ReadOnlyError, OSError, TimeoutError)
_IDENTITY = re.compile(rb"^(?:run_id|master_replid):(\w+)", re.MULTILINE)


async def identity_of(connection: AbstractConnection) -> bytes:
    """What tells a server, and each start of it, and each history of its data from another; empty where it is not told.

    Raises what the server refuses with, and `TimeoutError`.
    """
    found = b""
    async with asyncio.timeout(REPLY_TIMEOUT_S):
        for section in ("server", "replication"):
            await connection.send_packed_command(connection.pack_command("INFO", section))
            try:
                found += b"".join(_IDENTITY.findall(await connection.read_response()))
            except ResponseError as error:
                if refusal(error):
                    raise
                return b""
    return found


class Connected:
    """A connection that comes back: `use()` gives a live one, `drop()` closes it after a failure."""

    def __init__(self, client: AsyncRedis, label: str) -> None:
        self._pool = client.connection_pool
        self._label = label
        self._connection: AbstractConnection | None = None
        self._failures = 0
        self.away: str | None = None

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
            self.away = None

    async def drop(self, error: BaseException | None = None) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.disconnect(nowait=True)
        if error is not None:
            if self._failures == 0:
                log.warning("redis connection lost", connection=self._label, error=repr(error))
            self._failures += 1
            self.away = reason(error)

    async def pause(self) -> None:
        await asyncio.sleep(RECONNECT_S[min(self._failures, len(RECONNECT_S)) - 1])
