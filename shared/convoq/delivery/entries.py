"""What a streamed answer is made of: entries, each some numbered NDJSON lines.

A Redis Stream (the truth) and a pub/sub channel (wake-up and fast path) carry the same entries: msgpack
`[first, count, lines, end]`, where `lines` are `count` NDJSON lines numbered from `first`, and `end` is None or, in an
execution's last entry, what became of it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal, cast

import msgpack
import msgspec

from convoq import keys
from convoq.errors import ConvoqError, Stopped
from convoq.protocol import Chunk, encode_line
from convoq.redis import Pipe

Status = Literal["success", "error", "stopped"]


class Ended(msgspec.Struct, frozen=True):
    """What became of an execution. `reply` answers a client that asked for JSON; `error` is `ConvoqError.as_dict()`."""

    status: Status
    reply: dict[str, Any]
    error: dict[str, Any] | None = None
    http_status: int = 200

    @classmethod
    def by(cls, error: ConvoqError) -> Ended:
        """The end that an error makes of it: `stopped` where a person asked for that."""
        return cls("stopped" if isinstance(error, Stopped) else "error", {}, error.as_dict(), error.status)


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


async def read_log(pipe: Pipe, execution_id: str, seq: int, *, count: int = 100) -> list[Entry]:
    """Entries of the log from chunk number `seq` on, at most `count`."""
    found = await pipe.command("XRANGE", keys.stream_log(execution_id), f"({seq}-0", "+", "COUNT", count)
    return [Entry.unpack(fields[1], logged=True) for _, fields in found]
