"""A streamed answer between worker and API: a Redis Stream is the truth, a pub/sub channel the wake-up and fast path.

Both carry the same entries: msgpack `[first, count, lines, end]`, where `lines` are `count` NDJSON lines numbered from
`first`, and `end` is None or, in an execution's last entry, what became of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast

import msgpack
import msgspec

from convoq import keys
from convoq.errors import ExecutionFailed, Fenced, StreamTooLarge
from convoq.protocol import Chunk, encode_line
from convoq.redis import Pipe, load_script
from convoq.settings import Settings

Status = Literal["success", "error", "stopped"]


class Ended(msgspec.Struct, frozen=True):
    """What became of an execution. `reply` answers a client that asked for JSON; `error` is `ConvoqError.as_dict()`."""

    status: Status
    reply: dict[str, Any]
    error: dict[str, Any] | None = None
    http_status: int = 200


@dataclass(frozen=True, slots=True)
class Entry:
    """`count` lines from number `first` on. One that counts none but has a line is a passing word, not in the log.

    `logged` tells that it was read from the log, where nothing can come before it any more.
    """

    first: int
    count: int
    lines: bytes
    end: Ended | None = None
    logged: bool = False

    @property
    def next(self) -> int:
        return self.first + self.count

    def after(self, seq: int) -> Entry:
        """The part of it that comes from number `seq` on."""
        if seq <= self.first:
            return self
        lines = self.lines.split(b"\n", seq - self.first)[-1]
        return Entry(seq, max(0, self.next - seq), lines if seq < self.next else b"", self.end)

    def pack(self) -> bytes:
        end = None if self.end is None else msgspec.to_builtins(self.end)
        return cast(bytes, msgpack.packb([self.first, self.count, self.lines, end]))

    @classmethod
    def unpack(cls, data: bytes, *, logged: bool = False) -> Entry:
        first, count, lines, end = msgpack.unpackb(data)
        return cls(first, count, lines, None if end is None else msgspec.convert(end, Ended), logged)


def number(chunks: Iterable[Chunk], first: int, end: Ended | None = None) -> Entry:
    """Give chunks their numbers and their bytes."""
    lines = bytearray()
    seq = first
    for chunk in chunks:
        chunk.seq = seq  # type: ignore[attr-defined]
        lines += encode_line(chunk)
        lines += b"\n"
        seq += 1
    return Entry(first, seq - first, bytes(lines), end)


class StreamWriter:
    """One attempt's writing end. At most one batch is under way: what comes meanwhile makes the next one.

    `send` waits while `HIGH_WATER` chunks are unsent, so a model faster than Redis costs bounded memory.
    """

    HIGH_WATER = 1000

    def __init__(self, pipe: Pipe, execution_id: str, attempt: int, settings: Settings, *, first: int = 0) -> None:
        self._pipe = pipe
        self._keys = [keys.execution(execution_id), keys.stream_log(execution_id)]
        self._attempt = attempt
        self._settings = settings
        self._next = first
        self._waiting: list[Chunk] = []
        self._sending: asyncio.Task[None] | None = None
        self._failure: BaseException | None = None
        self._script = load_script("publish")

    @property
    def next(self) -> int:
        """The number of the next chunk, counting what is in the log."""
        return self._next

    async def send(self, chunk: Chunk) -> None:
        """Queue a chunk. Raises what an earlier batch failed with: `Fenced`, `StreamTooLarge`."""
        if self._failure is not None:
            raise self._failure
        self._waiting.append(chunk)
        if self._sending is None:
            self._sending = asyncio.create_task(self._drain())
        elif len(self._waiting) >= self.HIGH_WATER:
            await self.flush()

    async def flush(self) -> None:
        """Until all that was sent is in the log."""
        while self._sending is not None:
            await asyncio.shield(self._sending)
        if self._failure is not None:
            raise self._failure

    async def close(self) -> tuple[int, list[Chunk]]:
        """Take what is unsent, let what is under way finish: the next number, and the chunks for the last entry."""
        unsent, self._waiting = self._waiting, []
        while self._sending is not None:
            await asyncio.shield(self._sending)
        if self._failure is not None:
            raise self._failure
        return self._next, unsent

    async def _drain(self) -> None:
        try:
            while self._waiting:
                chunks, self._waiting = self._waiting, []
                await self._publish(chunks)
        except Exception as error:
            self._failure = error
            self._waiting.clear()
        finally:
            self._sending = None

    async def _publish(self, chunks: Sequence[Chunk]) -> None:
        entry = number(chunks, self._next)
        settings = self._settings
        done = await self._pipe.run(
            self._script,
            self._keys,
            [
                *(self._attempt, entry.first, entry.count, entry.pack(), len(entry.lines)),
                *(settings.stream_ttl_s, settings.stream_max_bytes, settings.stream_max_chunks),
            ],
        )
        if done == 0:
            raise Fenced("another attempt has taken this execution over")
        if done == -1:
            raise StreamTooLarge(
                f"the answer is larger than {settings.stream_max_bytes} bytes or {settings.stream_max_chunks} chunks "
                "(CONVOQ_STREAM_MAX_BYTES, CONVOQ_STREAM_MAX_CHUNKS)"
            )
        if done != 1:
            raise ExecutionFailed(f"the stream lost what came before chunk {entry.first}: Redis went back in time")
        self._next = entry.next


async def read_log(pipe: Pipe, execution_id: str, seq: int, *, count: int = 100) -> list[Entry]:
    """Entries of the log from chunk number `seq` on, at most `count`."""
    found = await pipe.command("XRANGE", keys.stream_log(execution_id), f"({seq}-0", "+", "COUNT", count)
    return [Entry.unpack(fields[1], logged=True) for _, fields in found]
