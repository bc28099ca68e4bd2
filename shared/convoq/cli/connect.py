"""The Redis server that a command works on."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import cast

from redis.asyncio import Redis
from redis.exceptions import RedisError

from convoq import keys
from convoq.addresses import shown
from convoq.cli import embedded
from convoq.errors import Unavailable
from convoq.redis import async_client
from convoq.settings import Settings

DEFAULT_DATA = Path(".convoq")


def names_redis(settings: Settings) -> bool:
    """Whether the user chose a server, rather than leaving it to convoq."""
    return "redis_url" in settings.model_fields_set


def url_of(settings: Settings, data: Path) -> str:
    """`CONVOQ_REDIS_URL`, else the server of a `convoq up` that runs on this data folder, else the default."""
    if not names_redis(settings) and embedded.is_running(data):
        return embedded.redis_url(data)
    return settings.redis_url


@asynccontextmanager
async def connected(url: str) -> AsyncIterator[Redis]:
    """A client of a server that answers. Raises `Unavailable` naming the URL."""
    async with async_client(url) as client:
        try:
            await client.ping()
        except (RedisError, OSError) as error:
            raise Unavailable(
                f"cannot reach Redis at {shown(url)} ({error}); start that server, correct CONVOQ_REDIS_URL, "
                "or unset it and use `convoq up`"
            ) from None
        yield client


async def check_worker(settings: Settings) -> None:
    """Raises `Unavailable` where no worker of this host (in a container: this container) has shown itself lately."""
    async with connected(settings.redis_url) as client:
        seconds, _ = await client.time()
        names = cast("Sequence[bytes]", await client.zrange(keys.WORKERS, f"({seconds}", "+inf", byscore=True))
    host = socket.gethostname()
    if not any(name.decode().startswith(f"{host}.") for name in names):
        raise Unavailable(f"no worker of host {host!r} takes messages")
