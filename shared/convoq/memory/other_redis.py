"""A Redis server that a credential names."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

import redis.asyncio
from redis.asyncio import Redis as AsyncRedis
from redis.asyncio.connection import Connection, SSLConnection
from redis.exceptions import AuthenticationError, AuthorizationError, ConnectionError, NoScriptError
from redis.exceptions import TimeoutError as RedisTimeout

from convoq.memory.patience import Trouble, patiently
from convoq.memory.servers import CONNECT_S, IDLE_S, MAX_CONNECTIONS, REPLY_S, RedisCredential
from convoq.redis import Argument, Script
from convoq.redis.refusals import ELSEWHERE, refusal

T = TypeVar("T")
NOT_TWICE = frozenset(("replace_turns",))
"""Scripts that would take away what others wrote in between."""


def connect(credential: RedisCredential) -> AsyncRedis:
    pool = redis.asyncio.BlockingConnectionPool(
        max_connections=MAX_CONNECTIONS,
        timeout=REPLY_S,
        connection_class=SSLConnection if credential.ssl else Connection,
        health_check_interval=IDLE_S,
        **(credential.tls() if credential.ssl else {}),
        host=credential.host,
        port=credential.port,
        db=credential.database,
        username=credential.user or None,
        password=credential.password or None,
        protocol=2,
        socket_connect_timeout=CONNECT_S,
        socket_timeout=REPLY_S,
    )
    return AsyncRedis.from_pool(pool)


class OtherRedis:
    def __init__(self, client: AsyncRedis, patience_s: float) -> None:
        self.client = client
        self._patience_s = patience_s

    async def command(self, *arguments: Argument) -> object:
        """For commands that may be done twice. Raises `RedisError`, `Troubled`."""
        return await self._patiently(lambda: self.client.execute_command(*arguments), again=True)

    async def run(self, script: Script, keys: Sequence[str], arguments: Sequence[Argument]) -> object:
        async def call() -> object:
            try:
                return await self.client.execute_command("EVALSHA", script.sha, len(keys), *keys, *arguments)
            except NoScriptError:
                return await self.client.execute_command("EVAL", script.source, len(keys), *keys, *arguments)

        return await self._patiently(call, again=script.name not in NOT_TWICE)

    async def _patiently(self, call: Callable[[], Awaitable[T]], *, again: bool) -> T:
        async def on_a_live_connection() -> T:
            try:
                return await call()
            except Exception as error:
                if (said := refusal(error)) and said.split(" ")[0] in ELSEWHERE:
                    await self.client.connection_pool.disconnect(inuse_connections=False)
                raise

        return await patiently(on_a_live_connection, trouble, patience_s=self._patience_s, again=again)


def trouble(error: Exception) -> Trouble | None:
    if said := refusal(error):
        return Trouble("is read-only" if said.startswith("READONLY") else "refuses it for now", undone=True)
    if isinstance(error, AuthenticationError | AuthorizationError) or "CERTIFICATE" in str(error):
        return None
    if isinstance(error, ConnectionError):
        full = "max number of clients" in str(error)
        return Trouble("takes no more connections", undone=True) if full else Trouble("closed the connection")
    return Trouble("does not answer") if isinstance(error, RedisTimeout) else None
