"""A worker's writing end of streamed answers: one outbox a process, one writer an attempt."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from itertools import islice
from weakref import WeakSet

from convoq import keys
from convoq.delivery.entries import Entry, number
from convoq.errors import ExecutionFailed, Fenced, StreamTooLarge, Unavailable
from convoq.protocol import Chunk
from convoq.redis import Argument, Pipe, load_script
from convoq.settings import Settings


def _size(chunk: Chunk) -> int:
    """About what it takes as a line."""
    return 200 + len(getattr(chunk, "content", ""))


class Outbox:
    """Publishes for all streams of a process, many in one script call.

    A stream's first chunk goes out at once. What follows gathers for a moment that grows with the number of streams: a
    token on its own costs a worker, the server and an API process as much as ten together.
    """

    LEAST_GATHER_S, GATHER_PER_STREAM_S, MOST_GATHER_S = 0.004, 0.0004, 0.04
    """At one stream below what anybody sees, at a hundred what a busy machine can afford (25 changes a second)."""
    MOST_STREAMS = 200
    """Per call: bounds how long one call keeps the server from others."""

    def __init__(self, pipe: Pipe, settings: Settings) -> None:
        self._pipe = pipe
        self._limits = (settings.stream_ttl_s, settings.stream_max_bytes, settings.stream_max_chunks)
        self._script = load_script("publish")
        self._fresh: dict[StreamWriter, None] = {}
        self._ready: dict[StreamWriter, None] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._not_before = 0.0
        self.settings = settings
        self.streams: WeakSet[StreamWriter] = WeakSet()

    def put(self, writer: StreamWriter) -> None:
        """The writer has something to say."""
        loop = asyncio.get_running_loop()
        if writer.next == 0:
            if not self._fresh:
                loop.call_soon(self._send_fresh)
            self._fresh[writer] = None
        else:
            self._ready[writer] = None
            if self._timer is None:
                self._timer = loop.call_at(max(self._not_before, loop.time()), self._send_ready)

    def _send_fresh(self) -> None:
        while self._fresh:
            self._send(self._fresh)

    def _send_ready(self) -> None:
        loop = asyncio.get_running_loop()
        gather_s = self.LEAST_GATHER_S + self.GATHER_PER_STREAM_S * len(self.streams)
        self._not_before = loop.time() + min(gather_s, self.MOST_GATHER_S)
        self._timer = None
        self._send(self._ready)
        if self._ready:
            self._timer = loop.call_at(loop.time(), self._send_ready)

    def _send(self, waiting: dict[StreamWriter, None]) -> None:
        writers = list(islice(waiting, self.MOST_STREAMS))
        names: list[str] = []
        arguments: list[Argument] = [*self._limits]
        for writer in writers:
            del waiting[writer]
            names += writer.keys
            arguments += writer.take()
        try:
            reply = self._pipe.start(self._script, names, arguments)
        except Unavailable as error:
            _sent(writers, error)
        else:
            reply.add_done_callback(lambda reply: _sent(writers, reply.exception() or reply.result()))


def _sent(writers: Sequence[StreamWriter], answer: BaseException | Sequence[int]) -> None:
    for index, writer in enumerate(writers):
        writer.sent(answer if isinstance(answer, BaseException) else answer[index])


class StreamWriter:
    """One attempt's writing end. At most one batch is under way: what comes meanwhile makes the next one.

    `send` waits while `HIGH_WATER_BYTES` are unsent, so a model faster than Redis costs bounded memory.
    """

    BATCH_BYTES = 32 << 10
    """A log entry takes no chunk beyond this: what is read at once for a slow client is bounded, too."""
    HIGH_WATER_BYTES = 8 * BATCH_BYTES

    def __init__(self, outbox: Outbox, execution_id: str, token: str) -> None:
        self.keys = (keys.execution(execution_id), keys.stream_log(execution_id))
        self._outbox = outbox
        outbox.streams.add(self)
        self._token = token
        self._next = 0
        self._waiting: list[Chunk] = []
        self._waiting_bytes = 0
        self._bytes = 0
        self._under_way: Entry | None = None
        self._failure: BaseException | None = None
        self._idle: asyncio.Future[None] | None = None

    @property
    def next(self) -> int:
        """The number of the next chunk, counting what is in the log."""
        return self._next

    async def send(self, chunk: Chunk) -> None:
        """Queue a chunk. Raises what an earlier batch failed with: `Fenced`, `StreamTooLarge`."""
        if self._failure is not None:
            raise self._failure
        self._waiting.append(chunk)
        self._waiting_bytes += _size(chunk)
        if self._under_way is None:
            self._outbox.put(self)
        if self._waiting_bytes >= self.HIGH_WATER_BYTES:
            await self.flush()

    async def flush(self) -> None:
        """Until all that was sent is in the log."""
        while self._failure is None and (self._waiting or self._under_way is not None):
            await self._settled()
        if self._failure is not None:
            raise self._failure

    async def close(self) -> tuple[int, list[Chunk]]:
        """Take what is unsent, let what is under way finish: the next number, and the chunks for the last entry."""
        while self._waiting_bytes > self.BATCH_BYTES:
            await self._settled()
        settings, entry = self._outbox.settings, self._under_way
        chunks = (self._next if entry is None else entry.next) + len(self._waiting)
        size = self._bytes + self._waiting_bytes + (0 if entry is None else len(entry.lines))
        if chunks > settings.stream_max_chunks or size > settings.stream_max_bytes:
            await self.flush()  # the last entry is not measured
        unsent, self._waiting, self._waiting_bytes = self._waiting, [], 0
        while self._under_way is not None:
            await self._settled()
        if self._failure is not None:
            raise self._failure
        return self._next, unsent

    async def _settled(self) -> None:
        if self._idle is None:
            self._idle = asyncio.get_running_loop().create_future()
        await asyncio.shield(self._idle)

    def take(self) -> tuple[Argument, ...]:
        """For the outbox: the batch that goes now, as the script's arguments. It may be empty."""
        size = count = 0
        while count < len(self._waiting) and size < self.BATCH_BYTES:
            size += _size(self._waiting[count])
            count += 1
        chunks, self._waiting = self._waiting[:count], self._waiting[count:]
        self._waiting_bytes -= size
        self._under_way = entry = number(chunks, self._next)
        return (self._token, entry.first, entry.count, entry.pack(), len(entry.lines))

    def sent(self, answer: BaseException | int) -> None:
        """For the outbox: what became of the batch."""
        entry, self._under_way = self._under_way, None
        assert entry is not None
        if answer == 1:
            self._next = entry.next
            self._bytes += len(entry.lines)
            if self._waiting:
                self._outbox.put(self)
        else:
            self._failure = answer if isinstance(answer, BaseException) else self._refused(answer, entry)
            self._waiting, self._waiting_bytes = [], 0
        if self._idle is not None:
            self._idle.set_result(None)
            self._idle = None

    def _refused(self, answer: int, entry: Entry) -> ExecutionFailed:
        settings = self._outbox.settings
        if answer == 0:
            return Fenced("another attempt has taken this execution over")
        if answer == -1:
            return StreamTooLarge(
                f"the answer is larger than {settings.stream_max_bytes} bytes or {settings.stream_max_chunks} chunks "
                "(CONVOQ_STREAM_MAX_BYTES, CONVOQ_STREAM_MAX_CHUNKS)"
            )
        return ExecutionFailed(f"the stream lost what came before chunk {entry.first}: Redis went back in time")
