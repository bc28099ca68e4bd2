"""The Redis server that a command works on."""

from __future__ import annotations

import os
import secrets
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, cast

import typer
from pydantic import SecretStr
from redis.asyncio import Redis
from redis.exceptions import RedisError

from convoq import keys
from convoq.addresses import shown
from convoq.cli import embedded
from convoq.errors import Unavailable
from convoq.redis import async_client
from convoq.settings import Settings

DEFAULT_DATA = Path(".convoq")
KEY_FILE = "encryption.key"
Data = Annotated[Path, typer.Option("--data", help="Data folder of the embedded Valkey.")]


def names_redis(settings: Settings) -> bool:
    """Whether the user chose a server, rather than leaving it to convoq."""
    return "redis_url" in settings.model_fields_set


def url_of(settings: Settings, data: Path) -> str:
    """`CONVOQ_REDIS_URL`, else the server of a `convoq up` that runs on this data folder, else the default."""
    if not names_redis(settings) and embedded.is_running(data):
        return embedded.redis_url(data)
    return settings.redis_url


def with_encryption_key(settings: Settings, data: Path) -> Settings:
    """The settings, with the key that `convoq up` has made for its data folder where none is set and that server is
    used."""
    if settings.encryption_key is None and not names_redis(settings) and (data / KEY_FILE).exists():
        return settings.model_copy(update={"encryption_key": SecretStr((data / KEY_FILE).read_text().strip())})
    return settings


def made_encryption_key(data: Path) -> str:
    """The data folder's own key, made on first use, readable by its owner alone."""
    file = data / KEY_FILE
    try:
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return file.read_text().strip()
    with os.fdopen(descriptor, "w") as opened:
        opened.write(key := secrets.token_hex(32))
    return key


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
