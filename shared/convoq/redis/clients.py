"""Clients by address: Redis itself, or the master that Sentinels name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast
from urllib.parse import unquote

import redis
from redis.asyncio import Redis as AsyncRedis
from redis.asyncio.connection import ConnectionPool
from redis.asyncio.sentinel import Sentinel as AsyncSentinel
from redis.sentinel import Sentinel

from convoq import addresses
from convoq.errors import ConfigError
from convoq.redis.connection import REPLY_TIMEOUT_S

T = TypeVar("T")

SENTINEL = "redis+sentinel://"


def async_client(url: str, *, socket_timeout: float | None = REPLY_TIMEOUT_S) -> AsyncRedis:
    """A client over a blocking pool (redis-py's default pool raises when it is exhausted). Raises `ConfigError`."""
    options: dict[str, Any] = {"protocol": 2, "socket_timeout": socket_timeout, "socket_connect_timeout": 3}

    def by_sentinels(nodes: list[tuple[str, int]], service: str, own: dict[str, Any]) -> AsyncRedis:
        return cast(AsyncRedis, AsyncSentinel(nodes, **options).master_for(service, **options, **own))

    def direct() -> AsyncRedis:
        pool: ConnectionPool = redis.asyncio.BlockingConnectionPool.from_url(
            url, max_connections=20, timeout=REPLY_TIMEOUT_S, **options
        )
        return AsyncRedis.from_pool(pool)

    return _made(url, by_sentinels, direct)


def sync_client(url: str) -> redis.Redis:
    """RQ's kind of client. Where RQ only records commands on it, nothing is sent. Raises `ConfigError`."""

    def by_sentinels(nodes: list[tuple[str, int]], service: str, own: dict[str, Any]) -> redis.Redis:
        return cast(redis.Redis, Sentinel(nodes, protocol=2).master_for(service, protocol=2, **own))

    return _made(url, by_sentinels, lambda: redis.Redis.from_url(url, protocol=2))


def _made(
    url: str,
    by_sentinels: Callable[[list[tuple[str, int]], str, dict[str, Any]], T],
    direct: Callable[[], T],
) -> T:
    wrong = addresses.fault(url)
    if wrong is None:
        try:
            return by_sentinels(*_sentinel(url)) if url.startswith(SENTINEL) else direct()
        except ValueError as error:
            wrong = str(error)
    raise ConfigError(f"CONVOQ_REDIS_URL={addresses.shown(url)!r}: {wrong}")


def _sentinel(url: str) -> tuple[list[tuple[str, int]], str, dict[str, Any]]:
    """The parts of `redis+sentinel://[user:password@]host:26379,host2:26379/service/0`: Sentinels, service, and what
    is needed at the master that they name. Raises `ValueError`."""
    user, at, rest = url.removeprefix(SENTINEL).rpartition("@")
    hosts, _, path = rest.partition("/")
    service, _, db = path.partition("/")
    nodes = []
    for host in filter(None, hosts.split(",")):
        name, _, port = host.rpartition(":")
        nodes.append((name or host, int(port) if name else 26379))
    if not nodes or not service or not (db or "0").isdecimal():
        raise ValueError("expected redis+sentinel://[USER:PASSWORD@]HOST:26379[,HOST…]/SERVICE[/DB]")
    own: dict[str, Any] = {"db": int(db or 0)}
    if at:
        name, _, password = user.partition(":")
        own |= {"username": unquote(name) or None, "password": unquote(password)}
    return nodes, service, own
