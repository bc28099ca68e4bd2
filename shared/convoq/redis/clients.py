"""Clients by URL: Redis itself, or the master that Sentinels name."""

from __future__ import annotations

from typing import Any, cast
from urllib.parse import urlsplit, urlunsplit

import redis
from convoq.errors import ConfigError
from convoq.redis.connection import REPLY_TIMEOUT_S
from redis.asyncio import Redis as AsyncRedis
from redis.asyncio.connection import ConnectionPool
from redis.asyncio.sentinel import Sentinel as AsyncSentinel
from redis.sentinel import Sentinel


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
