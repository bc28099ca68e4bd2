"""From Redis to the client: one pub/sub connection per process, a reader per stream, gaps filled from the log."""

from __future__ import annotations

import asyncio
from collections import deque
from types import TracebackType
from typing import Self

from redis.asyncio import Redis as AsyncRedis

from convoq import keys
from convoq.delivery.entries import Entry, read_log
from convoq.errors import Gone, ShuttingDown
from convoq.redis import Pipe, Subscriber
from convoq.settings import Settings

LOG_PAGE = 8
"""Entries read from the log at once: one may hold all that a fast model said while Redis was busy."""


class Reader:
    """One client's place in one stream. `next` gives each entry once and in order, whatever pub/sub lost or repeated.

    A client slower than its stream is not buffered for beyond `client_buffer_bytes`: what is over that is dropped here
    and read from the log when the client gets there.
    """

    def __init__(self, hub: Hub, execution_id: str, seq: int) -> None:
        self._hub = hub
        self.execution_id = execution_id
        self._seq = seq
        self._live: deque[Entry] = deque()
        self._live_bytes = 0
        self._behind = False
        self._wake = asyncio.Event()
        self._left = False
        self._cut = False
        self._deadline = 0.0
        self._timer: asyncio.TimerHandle | None = None

    async def __aenter__(self) -> Self:
        await self._hub.join(self)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def join_late(self) -> None:
        """Listen to a stream that may have begun: what it has said already comes from the log."""
        await self._hub.join(self)
        self.fall_behind()

    def close(self) -> None:
        """Stop listening. Harmless when repeated."""
        if self._timer is not None:
            self._timer.cancel()
        self._hub.leave(self)

    def push(self, data: bytes) -> None:
        """A live entry, as it comes from the channel."""
        if self._behind:
            return
        self._live_bytes += len(data)
        if self._live_bytes > self._hub.settings.client_buffer_bytes:
            self.fall_behind()
        else:
            self._live.append(Entry.unpack(data))
            self._wake.set()

    def fall_behind(self) -> None:
        """Forget what is buffered; the log has it."""
        self._live.clear()
        self._live_bytes = 0
        self._behind = True
        self._wake.set()

    def leave(self) -> None:
        """The client is gone: `next` gives None from now on."""
        self._left = True
        self._wake.set()

    def cut(self) -> None:
        """This process ends before the stream does."""
        self._cut = True
        self._wake.set()

    @property
    def seq(self) -> int:
        """The number of the next chunk for the client."""
        return self._seq

    @property
    def left(self) -> bool:
        return self._left

    async def next(self, timeout_s: float) -> Entry | None:
        """The next entry, or None after `timeout_s` without one. Raises `Gone` when the rest cannot be had any more,
        and `ShuttingDown` once the stream was cut."""
        while not self._left:
            if self._cut:
                raise ShuttingDown("this server is being stopped: the answer goes on and can be read on elsewhere")
            if self._live:
                entry = self._live.popleft()
                if not self._live:
                    self._live_bytes = 0
                if entry.first > self._seq:
                    if entry.logged:
                        raise Gone(
                            f"the stream of {self.execution_id} lost its chunks from {self._seq} to {entry.first}"
                        )
                    self.fall_behind()
                elif entry.next > self._seq or entry.end is not None:
                    return self._advance(entry)
                elif not entry.count:
                    return entry  # a passing word that is not part of the log
            elif self._behind:
                self._behind = False  # first: what is published from here on is buffered again
                try:
                    async with asyncio.timeout(timeout_s):
                        entries = await read_log(self._hub.pipe, self.execution_id, self._seq, count=LOG_PAGE)
                except TimeoutError:  # Redis is away, but we are not: the client is to hear of us
                    self.fall_behind()
                    return None
                self._live.extendleft(reversed(entries))
                self._behind = self._behind or len(entries) == LOG_PAGE
            else:
                if not await self._heard(timeout_s):
                    await self._check(timeout_s)
                    return None
        return None

    async def _heard(self, timeout_s: float) -> bool:
        """Wait for news. One timer a reader, moved on when it rings too early: cheaper than one a wait."""
        loop = asyncio.get_running_loop()
        self._deadline = loop.time() + timeout_s
        if self._timer is None:
            self._timer = loop.call_at(self._deadline, self._ring)
        self._wake.clear()
        await self._wake.wait()
        return bool(self._live) or self._behind or self._left or self._cut

    def _ring(self) -> None:
        loop = asyncio.get_running_loop()
        self._timer = None
        if loop.time() < self._deadline:
            self._timer = loop.call_at(self._deadline, self._ring)
        else:
            self._wake.set()

    def _advance(self, entry: Entry) -> Entry:
        entry = entry.after(self._seq)
        self._seq = entry.next
        return entry

    async def _check(self, timeout_s: float) -> None:
        """Nothing was heard for a while: look into the log, in case the channel was cut without a word."""
        pipe, execution_id = self._hub.pipe, self.execution_id
        self.fall_behind()
        try:
            async with asyncio.timeout(timeout_s):
                status, log = await asyncio.gather(
                    pipe.command("HGET", keys.execution(execution_id), "status"),
                    pipe.command("EXISTS", keys.stream_log(execution_id)),
                )
        except TimeoutError:
            return
        if not log and status not in (b"queued", b"running"):
            raise Gone(f"the stream of execution {execution_id} is not kept any more")


class Hub:
    """All streams this process relays. `settings` bounds its readers."""

    def __init__(self, pipe: Pipe, client: AsyncRedis, settings: Settings) -> None:
        self.pipe = pipe
        self.settings = settings
        self._readers: dict[bytes, set[Reader]] = {}
        self._subscriber = Subscriber(client, self._on_message, self._on_reconnect)

    async def __aenter__(self) -> Self:
        await self._subscriber.__aenter__()
        self._subscriber.subscribe(f"{keys.PREFIX}api".encode())  # so that the connection always has a channel
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self._subscriber.__aexit__(*exc)

    def reader(self, execution_id: str, seq: int = 0) -> Reader:
        """A reader from chunk `seq` on. Entered before the message is queued it hears all; later, it `fall_behind`s."""
        return Reader(self, execution_id, seq)

    async def join(self, reader: Reader) -> None:
        channel = keys.execution(reader.execution_id).encode()
        self._readers.setdefault(channel, set()).add(reader)
        try:
            await self._subscriber.subscribe(channel)
        except BaseException:
            self.leave(reader)
            raise

    def leave(self, reader: Reader) -> None:
        channel = keys.execution(reader.execution_id).encode()
        readers = self._readers.get(channel, set())
        readers.discard(reader)
        if not readers and self._readers.pop(channel, None) is not None:
            self._subscriber.unsubscribe(channel)

    def cut(self) -> None:
        """End all streams here, each with an error that says why."""
        for readers in self._readers.values():
            for reader in readers:
                reader.cut()

    def _on_message(self, channel: bytes, data: bytes) -> None:
        for reader in self._readers.get(channel, ()):
            reader.push(data)

    def _on_reconnect(self) -> None:
        for readers in self._readers.values():
            for reader in readers:
                reader.fall_behind()
