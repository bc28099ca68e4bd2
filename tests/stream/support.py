"""A stream's two ends in this process, on a real server."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from convoq import keys
from convoq.api.relay import Hub, Reader
from convoq.delivery.entries import Ended, Entry, number
from convoq.delivery.writer import Outbox, StreamWriter
from convoq.ids import new_execution_id
from convoq.protocol import Item, Metadata
from convoq.redis import Pipe, async_client
from convoq.settings import Settings

PLACE = Metadata("n1", "AI Agent")
DONE = Ended("success", {"output": "done"})
PATIENCE_S = 5.0


@dataclass
class Wire:
    pipe: Pipe
    hub: Hub
    outbox: Outbox
    settings: Settings

    async def begin(self, token: str = "t1") -> str:
        """An execution as a worker has it that has just claimed it."""
        execution_id = new_execution_id()
        state = ("status", "running", "token", token, "seq", 0, "bytes", 0)
        await self.pipe.command("HSET", keys.execution(execution_id), *state)
        return execution_id

    def writer(self, execution_id: str, token: str = "t1") -> StreamWriter:
        return StreamWriter(self.outbox, execution_id, token)

    async def log(self, execution_id: str, *entries: Entry) -> None:
        """Write entries to the log and nowhere else, as if every message of the channel were lost."""
        for entry in entries:
            place = f"{entry.next}-{int(entry.end is not None)}"
            await self.pipe.command("XADD", keys.stream_log(execution_id), place, "d", entry.pack())

    async def publish(self, execution_id: str, *entries: Entry) -> None:
        """Send entries over the channel and nowhere else."""
        for entry in entries:
            await self.pipe.command("PUBLISH", keys.execution(execution_id), entry.pack())

    async def length(self, execution_id: str) -> int:
        found: int = await self.pipe.command("XLEN", keys.stream_log(execution_id))
        return found


@asynccontextmanager
async def wire(url: str, **settings: object) -> AsyncIterator[Wire]:
    chosen = Settings(redis_url=url, **settings)  # type: ignore[arg-type]
    client, listening = async_client(url), async_client(url)
    async with Pipe(client) as pipe, Hub(pipe, listening, chosen) as hub:
        yield Wire(pipe, hub, Outbox(pipe, chosen), chosen)
    await client.aclose()
    await listening.aclose()


def chunk(text: object) -> Item:
    return Item(str(text), PLACE)


def entries(*sizes: int, ends: bool = True) -> list[Entry]:
    """Entries of so many chunks each, whose texts are their numbers, and the entry that ends the stream."""
    made, first = [], 0
    for size in sizes:
        made.append(number([chunk(first + k) for k in range(size)], first))
        first += size
    return [*made, number([], first, DONE)] if ends else made


async def read(reader: Reader, count: int | None = None, *, timeout_s: float = PATIENCE_S) -> list[Entry]:
    """The next `count` entries, or all to the end."""
    found: list[Entry] = []
    async with asyncio.timeout(PATIENCE_S * 4):
        while len(found) != count:
            entry = await reader.next(timeout_s)
            if entry is not None:
                found.append(entry)
                if entry.end is not None:
                    break
    return found


def seqs(found: list[Entry]) -> list[int]:
    return [seq for entry in found for seq in range(entry.first, entry.next)]


async def eventually(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, f"not within {PATIENCE_S:g} s: {what}"
        await asyncio.sleep(0.005)
