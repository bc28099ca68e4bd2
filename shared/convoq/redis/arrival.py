"""The way to a server when a process starts: it may not be there yet, or be one that waiting does not mend."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from urllib.parse import urlsplit

import structlog
from redis.asyncio import Redis as AsyncRedis
from redis.asyncio.connection import AbstractConnection
from redis.exceptions import (
    AuthenticationError,
    ConnectionError,
    InvalidResponse,
    NoPermissionError,
    RedisError,
    ResponseError,
)
from redis.exceptions import TimeoutError as RedisTimeout

from convoq import keys
from convoq.addresses import shown
from convoq.errors import Unavailable
from convoq.redis.clients import async_client
from convoq.redis.reasons import chain, reason

log = structlog.get_logger()

TRY_S = 4.0
"""One try: longer than redis-py's own patience with a connection."""
PROBE_S = 1.0
PAUSES_S = (0.1, 0.2, 0.5, 1.0)
NEEDED: tuple[tuple[str | int, ...], ...] = (
    ("PING",),
    ("EVAL", "return redis.call('DEL', KEYS[1])", 1, f"{keys.PREFIX}hello"),
    ("PUBLISH", f"{keys.PREFIX}api", ""),
)
"""A write, a script, a channel: what a server does that is there, is a primary, and lets convoq in."""
LASTING = ("DB index", "invalid DB index", "SELECT is not allowed", "unknown command", "DENIED")
"""What servers say where only another setting helps. Whatever is not known to last may pass: LOADING, READONLY, …"""


class Arrival:
    """`trouble` is why the server cannot be used yet, in a few words without its address; None once it was there."""

    def __init__(self, url: str, *, patience_s: float = float("inf")) -> None:
        self._url = url
        self._patience_s = patience_s
        self.trouble: str | None = "it has not been asked yet"

    async def wait(self) -> None:
        """Until the server does what convoq needs. Raises `Unavailable` when patience is over, and at once for what
        waiting does not mend: a wrong password, a missing right, no Redis, TLS on one side only, an untrusted
        certificate."""
        loop = asyncio.get_running_loop()
        give_up_at = loop.time() + self._patience_s
        pauses = iter(PAUSES_S)
        async with async_client(self._url) as client:
            while (error := await _ask(client)) is not None:
                if why := await _lasting(error, self._url):
                    raise Unavailable(f"Redis at {shown(self._url)} cannot be used: {why} (CONVOQ_REDIS_URL)")
                if (trouble := reason(error)) != self.trouble:
                    self.trouble = trouble
                    log.warning("waiting for redis", address=shown(self._url), reason=trouble)
                pause_s = next(pauses, PAUSES_S[-1])
                if loop.time() + pause_s > give_up_at:
                    late = f"was not there within {self._patience_s:g} s (CONVOQ_REDIS_WAIT_S): {trouble}"
                    raise Unavailable(f"Redis at {shown(self._url)} {late} (CONVOQ_REDIS_URL)")
                await asyncio.sleep(pause_s)
        self.trouble = None


async def _ask(client: AsyncRedis) -> Exception | None:
    """Why it does not do what is needed."""
    connection: AbstractConnection = client.connection_pool.make_connection()
    try:
        async with asyncio.timeout(TRY_S):
            await connection.connect()
            for words in NEEDED:
                await connection.send_command(*words)
                await connection.read_response()
    except (RedisError, OSError, RuntimeError) as error:  # RuntimeError: what uvloop says of a closed connection
        return error
    finally:
        await connection.disconnect(nowait=True)
    return None


async def _lasting(error: Exception, url: str) -> str | None:
    """Why waiting would not help, if it would not."""
    for cause in chain(error):
        match cause:
            case NoPermissionError():
                return f"its user may not do what convoq needs ({cause})"
            case AuthenticationError():
                return f"it refuses the user or password ({cause})"
            case ssl.SSLCertVerificationError():
                return f"its certificate is not trusted ({cause.verify_message})"
            case ResponseError() if str(cause).startswith(LASTING):
                return str(cause)
    scheme = urlsplit(url).scheme
    if scheme == "rediss" and _has(error, ssl.SSLError, RedisTimeout, TimeoutError) and await _is_plain(url):
        return "it speaks no TLS (redis:// instead of rediss://)"
    if scheme == "redis" and _has(error, ConnectionError, ConnectionResetError) and await _is_tls(url):
        return "it speaks TLS (rediss:// instead of redis://)"
    if _has(error, InvalidResponse) or "WRONG_VERSION_NUMBER" in str(error):
        return "what answers there is no Redis"
    return None


def _has(error: Exception, *kinds: type[BaseException]) -> bool:
    return any(isinstance(cause, kinds) for cause in chain(error))


async def _is_plain(url: str) -> bool:
    """Whether a Redis without TLS listens there: one ignores a client's TLS in silence."""
    reply = b""
    with contextlib.suppress(OSError):
        async with asyncio.timeout(PROBE_S):
            parts = urlsplit(url)
            reader, writer = await asyncio.open_connection(parts.hostname, parts.port or 6379)
            try:
                writer.write(b"PING\r\n")
                reply = await reader.readline()
            finally:
                writer.close()
    return reply.startswith((b"+PONG", b"-NOAUTH", b"-DENIED"))


async def _is_tls(url: str) -> bool:
    """Whether TLS is spoken there: such a server closes a plain connection in silence."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE  # nothing is sent
    with contextlib.suppress(OSError):
        async with asyncio.timeout(PROBE_S):
            parts = urlsplit(url)
            _, writer = await asyncio.open_connection(parts.hostname, parts.port or 6379, ssl=context)
            writer.transport.abort()
            return True
    return False
