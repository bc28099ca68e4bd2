"""Connections to the servers that credentials name: opened on first use, shared by all executions of a process."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from redis.asyncio.connection import parse_url

from convoq.memory.other_redis import OtherRedis
from convoq.memory.other_redis import connect as connect_redis
from convoq.memory.patience import PATIENCE_S
from convoq.memory.server import Server
from convoq.memory.servers import MongoCredential, PostgresCredential, RedisCredential

if TYPE_CHECKING:
    from convoq.memory.mongo import MongoCollection
    from convoq.memory.postgres_table import PostgresTable


class Pools:
    """`own` is convoq's Redis: a credential that names the same database gets that connection, which can be fenced.
    `patience_s`: how long the others may be away, full or read-only before an error says so."""

    def __init__(self, own: Server | None = None, own_url: str = "", *, patience_s: float = PATIENCE_S) -> None:
        self.own = own
        self._patience_s = patience_s
        self._own_address = _address(own_url) if own is not None else None
        self._lock = asyncio.Lock()
        self._redis: dict[RedisCredential, OtherRedis] = {}
        self._postgres: dict[PostgresCredential, Any] = {}
        self._tables: dict[tuple[PostgresCredential, str], PostgresTable] = {}
        self._mongo: dict[MongoCredential, Any] = {}
        self._collections: dict[tuple[MongoCredential, str, str], MongoCollection] = {}

    def redis(self, fields: Mapping[str, Any]) -> Server:
        """Raises `NodeFailed` where the fields are none of a Redis server."""
        credential = RedisCredential.read(fields)
        if self.own is not None and (_host(credential.host), credential.port, credential.database) == self._own_address:
            return self.own
        if credential not in self._redis:
            self._redis[credential] = OtherRedis(connect_redis(credential), self._patience_s)
        return self._redis[credential]

    async def postgres(self, fields: Mapping[str, Any], table: str) -> PostgresTable:
        """Raises `NodeFailed` for wrong fields, a table name that is none, or without the extra."""
        from convoq.memory.postgres_pool import connect
        from convoq.memory.postgres_table import PostgresTable

        credential = PostgresCredential.read(fields)
        async with self._lock:  # opens no connection yet, so nobody waits for a dead server here
            if credential not in self._postgres:
                self._postgres[credential] = await connect(credential, self._patience_s)
            if (credential, table) not in self._tables:
                self._tables[credential, table] = PostgresTable(self._postgres[credential], table)
        return self._tables[credential, table]

    def mongo(self, fields: Mapping[str, Any], database: str, collection: str) -> MongoCollection:
        """Raises `NodeFailed` for wrong fields or without the extra."""
        from convoq.memory.mongo import MongoCollection, connect

        credential = MongoCredential.read(fields)
        if credential not in self._mongo:
            self._mongo[credential] = connect(credential)
        key = (credential, database or credential.database, collection)
        if key not in self._collections:
            self._collections[key] = MongoCollection(self._mongo[credential], *key[1:], patience_s=self._patience_s)
        return self._collections[key]

    async def close(self) -> None:
        for server in self._redis.values():
            await server.client.aclose()
        for pool in self._postgres.values():
            await pool.close()
        for client in self._mongo.values():
            await client.close()


def _host(name: str) -> str:
    return "127.0.0.1" if name in ("localhost", "::1") else name


def _address(url: str) -> tuple[str, int, int] | None:
    try:
        parts: Mapping[str, Any] = parse_url(url)
    except ValueError:  # sentinels: no credential names those
        return None
    return _host(parts.get("host", "localhost")), parts.get("port", 6379), parts.get("db", 0)
