"""Memories that hold as many of the last turns as fit a measure other than turns: messages, or tokens."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from convoq.contract.memory import History, Memory, Turn

Size = Callable[[Turn], int]
"""How much of the measure a turn takes."""
OpenAt = Callable[[int], Memory]
"""The same stored history, with a window of so many turns."""


def messages_in(turn: Turn) -> int:
    """Tool calls and results count: each reply with calls is one message, each result another."""
    return sum(1 for _ in turn.messages())


def fit(turns: Sequence[Turn], limit: int, size: Size) -> list[Turn]:
    """The last turns that take no more than `limit` together. A turn stays whole, for providers refuse calls without
    results; only where the newest alone is too much do its first tool rounds fall out, or all of it."""
    kept: list[Turn] = []
    room = limit
    for turn in reversed(turns):
        if not kept:
            while turn.steps and size(turn) > room:
                turn = msgspec.structs.replace(turn, steps=turn.steps[1:])
        room -= size(turn)
        if room < 0:
            break
        kept.append(turn)
    return kept[::-1]


class FittedView:
    """A memory of which only what fits is told; it is stored as the memory itself does."""

    def __init__(self, memory: Memory, limit: int, size: Size, what: str) -> None:
        self.window = memory.window
        self._memory = memory
        self._limit = limit
        self._size = size
        self._what = what

    async def load(self) -> History:
        stored = await self._memory.load()
        kept = fit(stored, self._limit, self._size)
        said = (
            f"{sum(map(self._size, kept))} of at most {self._limit} {self._what}, in {len(kept)} of {len(stored)} turns"
        )
        return History(kept, [*getattr(stored, "notes", ()), said])

    async def append(self, turn: Turn) -> None:
        await self._memory.append(turn)

    async def replace(self, turns: Sequence[Turn]) -> None:
        await self._memory.replace(turns)

    async def clear(self) -> None:
        await self._memory.clear()


class FittedMemory(FittedView):
    """What does not fit any more is gone from storage as well.

    Where something must fall out, a turn is appended with the number of turns that fit with it as the window, so that
    appending and trimming are the backend's one atomic step. Of several writers at the same moment none loses its turn;
    what falls out for them may be one turn more or less, and what is told is always measured again.
    """

    def __init__(self, open_at: OpenAt, most_turns: int, limit: int, size: Size, what: str) -> None:
        super().__init__(open_at(most_turns), limit, size, what)
        self._open_at = open_at

    async def append(self, turn: Turn) -> None:
        stored = await self._memory.load()
        if any(known.id == turn.id for known in stored):
            await self._memory.append(turn)  # changes nothing, unless this attempt may not write at all
            return
        kept = fit([*stored, turn], self._limit, self._size)
        if not kept:
            await self._memory.clear()
        elif len(kept) > len(stored):
            await self._memory.append(kept[-1])
        else:
            await self._open_at(len(kept)).append(kept[-1])

    async def replace(self, turns: Sequence[Turn]) -> None:
        await self._memory.replace(fit(turns, self._limit, self._size))


class NoMemory:
    """Empty at each access."""

    window = 1

    async def load(self) -> History:
        return History()

    async def append(self, turn: Turn) -> None:
        pass

    async def replace(self, turns: Sequence[Turn]) -> None:
        pass

    async def clear(self) -> None:
        pass
