"""Which processes of an installation there are, and of which version: who shares a prefix unawares hears of it."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Iterable, Sequence
from importlib.metadata import version
from typing import Literal, Self, cast

import msgspec
import structlog
from redis.asyncio import Redis as AsyncRedis
from redis.exceptions import RedisError

from convoq import keys
from convoq.errors import Unavailable
from convoq.redis import Pipe, load_script

log = structlog.get_logger()

SAY_S = 10.0
PRESENT_S = 30
"""Who has said nothing for this long is gone."""


class Process(msgspec.Struct, frozen=True, order=True):
    version: str
    role: Literal["api", "worker"]
    host: str
    pid: int

    @classmethod
    def this(cls, role: Literal["api", "worker"]) -> Self:
        return cls(version("convoq"), role, socket.gethostname(), os.getpid())

    def __str__(self) -> str:
        return f"{self.role} {self.host}.{self.pid} ({self.version})"


async def say_present(pipe: Pipe, process: Process) -> None:
    """Until cancelled; then it says that it ends. Tells the log once of processes that have another version."""
    script, mine = load_script("present"), msgspec.json.encode(process)
    told = False
    try:
        while True:
            try:
                found = await pipe.run(script, [keys.PROCESSES], [mine, PRESENT_S])
                if not told and (warning := mixed(_decoded(found))):
                    log.warning("versions are mixed", reason=warning)
                    told = True
            except (RedisError, Unavailable) as error:
                log.warning("cannot say that this process is there", error=str(error))
            await asyncio.sleep(SAY_S)
    finally:
        pipe.start(script, [keys.PROCESSES], [mine, ""]).add_done_callback(_heard)


def _heard(reply: asyncio.Future[object]) -> None:
    """Who ends need not know whether it was."""
    if not reply.cancelled():
        reply.exception()


async def processes(client: AsyncRedis) -> Sequence[Process]:
    """Who is there, by version and role."""
    seconds, _ = await client.time()
    found = await client.zrange(keys.PROCESSES, f"({seconds}", "+inf", byscore=True)
    return sorted(_decoded(cast("Sequence[bytes]", found)))


def mixed(there: Iterable[Process], own: str | None = None) -> str | None:
    """A sentence where processes of several versions use one prefix; `own` is the version that asks."""
    there = sorted(there)
    versions = {process.version for process in there} | ({own} if own and there else set())
    if len(versions) < 2:
        return None
    return (
        f"convoq {' and '.join(sorted(versions))} use the prefix {keys.INSTALLATION!r} on this Redis: "
        f"{', '.join(map(str, there))}. Give each installation a CONVOQ_PREFIX of its own, or finish the upgrade"
    )


def _decoded(members: Iterable[bytes]) -> Sequence[Process]:
    return [msgspec.json.decode(member, type=Process) for member in members]
