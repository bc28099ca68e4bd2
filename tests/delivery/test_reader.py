"""Property: whatever the channel loses, repeats or cuts off, and however the log grows meanwhile, a reader gets each
chunk once and in order, and then the end. Hub and log are in memory here, with everything awkward that Redis may do.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, cast

import hypothesis.strategies as st
from hypothesis import given, settings

from convoq.api.relay import Hub, Reader
from convoq.delivery.entries import Ended, Entry
from convoq.settings import Settings

Fate = Literal["live", "lost", "twice", "late"]
FATES: Sequence[Fate] = ("live", "lost", "twice", "late")
"""What becomes of a published message: it comes, it is lost, it comes twice, it comes after the next one."""
DONE = Ended("success", {})


@dataclass(frozen=True)
class Publish:
    """A batch of so many chunks is written to the log and published."""

    count: int
    fate: Fate
    bytes_each: int


@dataclass(frozen=True)
class Pass:
    """A passing word, that is in no log."""


@dataclass(frozen=True)
class Reconnect:
    """The pub/sub connection was lost and is restored."""


@dataclass(frozen=True)
class Read:
    """The client takes so many entries, if there are any."""

    count: int


@dataclass(frozen=True)
class LeaveAndComeBack:
    """The client hangs up and comes back with the last `seq` it saw."""


Step = Publish | Pass | Reconnect | Read | LeaveAndComeBack
steps = st.lists(
    st.one_of(
        st.builds(Publish, st.integers(1, 4), st.sampled_from(FATES), st.sampled_from((10, 400))),
        st.builds(Pass),
        st.builds(Reconnect),
        st.builds(Read, st.integers(1, 5)),
        st.builds(LeaveAndComeBack),
    ),
    max_size=60,
)


@dataclass
class World:
    """One stream: its log, its channel with one reader, and what its client has seen."""

    start: int
    log: list[Entry] = field(default_factory=list)
    late: list[bytes] = field(default_factory=list)
    seen: list[int] = field(default_factory=list)
    ended: int = 0
    settings: Settings = field(default_factory=lambda: Settings(client_buffer_bytes=1024))
    reads: int = 0

    def __post_init__(self) -> None:
        self.pipe = self
        self.reader = self._open(self.start)

    def _open(self, seq: int) -> Reader:
        return Reader(cast(Hub, self), "x", seq)

    def leave(self, reader: Reader) -> None:
        """As the hub's."""

    async def command(self, *words: Any) -> Any:
        """The log's XRANGE, which yields to others as a round trip does; status and existence of the log."""
        await asyncio.sleep(0)
        if words[0] == "XRANGE":
            first = int(words[2].removeprefix("(").partition("-")[0])
            after = [one for one in self.log if one.next > first or (one.end is not None and one.next >= first)]
            self.reads += 1
            return [[b"", [b"d", one.pack()]] for one in after[: words[5]]]
        return b"running" if words[0] == "HGET" else 1

    @property
    def next(self) -> int:
        return self.log[-1].next if self.log else 0

    def publish(self, count: int, fate: Fate, size: int, end: Ended | None = None) -> None:
        lines = b"".join(b"%d %b\n" % (seq, b"x" * size) for seq in range(self.next, self.next + count))
        entry = Entry(self.next, count, lines, end)
        self.log.append(entry)
        data = entry.pack()
        before, self.late = self.late, [data] if fate == "late" else []
        if fate in ("live", "twice"):
            self.reader.push(data)
        if fate == "twice":
            self.reader.push(data)
        for one in before:
            self.reader.push(one)

    async def read(self) -> bool:
        """One entry, if there is any; whether it was the last."""
        entry = await self.reader.next(0.001)
        if entry is None or (not entry.count and entry.end is None):
            return False
        numbers = [int(line.split()[0]) for line in entry.lines.splitlines()]
        assert numbers == list(range(entry.first, entry.next))
        self.seen += numbers
        self.ended += entry.end is not None
        return entry.end is not None

    async def do(self, step: Step) -> None:
        match step:
            case Publish(count, fate, size):
                self.publish(count, fate, size)
            case Pass():
                self.reader.push(Entry(0, 0, b'{"type":"retry","attempt":2}\n').pack())
            case Reconnect():
                self.late.clear()
                self.reader.fall_behind()
            case Read(count):
                for _ in range(count):
                    await self.read()
            case LeaveAndComeBack():
                self.reader.close()
                self.late.clear()
                self.reader = self._open(self.seen[-1] + 1 if self.seen else self.start)
                self.reader.fall_behind()


@given(steps=steps, last=st.integers(0, 2), fate=st.sampled_from(FATES))
@settings(max_examples=150, deadline=None)
def test_each_chunk_once_and_in_order(steps: list[Step], last: int, fate: Fate) -> None:
    async def story() -> None:
        world = World(start=0)
        for step in steps:
            await world.do(step)
        world.publish(last, fate, 10, DONE)
        for _ in range(20 * (len(steps) + 2)):
            if await world.read():
                break
        assert world.seen == list(range(world.next))
        assert world.ended == 1

    asyncio.run(story())


@given(sizes=st.lists(st.integers(1, 5), min_size=1, max_size=12), data=st.data())
@settings(max_examples=100, deadline=None)
def test_a_reader_may_begin_anywhere(sizes: list[int], data: st.DataObject) -> None:
    """In the middle of a batch, too."""

    async def story() -> None:
        total = sum(sizes)
        start = data.draw(st.integers(0, total))
        world = World(start)
        world.reader.fall_behind()
        for size in sizes:
            world.publish(size, data.draw(st.sampled_from(FATES)), 10)
        world.publish(0, "lost", 0, DONE)
        for _ in range(20 * len(sizes) + 40):
            if await world.read():
                break
        assert world.seen == list(range(start, total))
        assert world.ended == 1

    asyncio.run(story())


def test_a_slow_reader_costs_a_bounded_buffer() -> None:
    async def story() -> None:
        world = World(0)
        for _ in range(1000):
            world.publish(1, "live", 100)
            assert sum(len(entry.lines) for entry in world.reader._live) <= world.settings.client_buffer_bytes
        world.publish(0, "live", 0, DONE)
        while not await world.read():
            pass
        assert world.seen == list(range(1000))

    asyncio.run(story())


def test_a_reader_that_keeps_up_never_asks_the_log() -> None:
    """The log is for gaps: the fast path costs no round trip."""

    async def story() -> None:
        world = World(0)
        for _ in range(50):
            world.publish(2, "live", 10)
            await world.read()
        world.publish(0, "live", 0, DONE)
        assert await world.read()
        assert (world.seen, world.reads) == (list(range(100)), 0)

    asyncio.run(story())
