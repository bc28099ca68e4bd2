"""A memory whose oldest turns are folded into a running summary, which a model writes.

The summary is the first turn of the stored list: it goes to the model as one exchange (providers take it wherever they
take a history, and what was summed up from a user's words does not become a system message), it expires and is deleted
with the list, and it takes the place of the turns it sums up in one atomic step.
"""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import structlog
from redis.exceptions import RedisError

from convoq import keys
from convoq.contract.execution import ExecutionInfo
from convoq.contract.memory import MAX_MESSAGE_BYTES, History, Memory, Turn
from convoq.errors import Fenced, MemoryFailed, ModelFailed, Unavailable
from convoq.memory.local import LocalMemories
from convoq.memory.repair import elements_of
from convoq.memory.window import messages_in
from convoq.redis import Pipe, load_script

log = structlog.get_logger()

SUMMARY = "summary:"
"""What the id of a summary's turn begins with."""
BEFORE, AFTER = "Summary of our conversation up to this point:\n\n", "Understood. I will go on from there."
LOCK_S = 180
"""How long one summary may take. A worker that dies meanwhile holds up no more than the next summary."""

Place = tuple[ExecutionInfo, str, str]
"""(execution that writes, session, memory node)"""


class Folds(Protocol):
    """One summary at a time. `claim` gives a token, or None where another is being made. `fold` gives it back, and
    tells whether the summary took the turns' place: not so where they are no longer the first, or the claim was lost.
    """

    async def claim(self, place: Place) -> str | None: ...

    async def fold(self, place: Place, token: str, turns: Sequence[Turn], summary: Turn | None, ttl_s: int) -> bool: ...


class RedisFolds:
    def __init__(self, pipe: Pipe) -> None:
        self._pipe = pipe

    async def claim(self, place: Place) -> str | None:
        token = secrets.token_hex(8)
        try:
            done = await self._pipe.command("SET", _lock(place), token, "NX", "EX", LOCK_S, "GET")
        except (RedisError, Unavailable) as error:
            raise MemoryFailed(f"cannot claim {_lock(place)!r}: {error}") from error
        return token if done is None else None

    async def fold(self, place: Place, token: str, turns: Sequence[Turn], summary: Turn | None, ttl_s: int) -> bool:
        execution, session, node = place
        names = [keys.memory(execution.workflow_id, session, node), keys.execution(execution.id), _lock(place)]
        user, assistant = ("", "") if summary is None else elements_of(summary)
        arguments = [execution.token, ttl_s, token, user, assistant, *(turn.id for turn in turns)]
        try:
            reply = await self._pipe.run(load_script("fold"), names, arguments)
        except (RedisError, Unavailable) as error:
            raise MemoryFailed(f"cannot write the memory {names[0]!r}: {error}") from error
        if reply == -1:
            raise Fenced("another attempt has taken this execution over: its summary was not kept")
        return bool(reply == 1)


class LocalFolds:
    def __init__(self, memories: LocalMemories) -> None:
        self._memories = memories
        self._claimed: dict[tuple[str, str, str], str] = {}

    async def claim(self, place: Place) -> str | None:
        token = secrets.token_hex(8)
        return token if self._claimed.setdefault(_local(place), token) == token else None

    async def fold(self, place: Place, token: str, turns: Sequence[Turn], summary: Turn | None, ttl_s: int) -> bool:
        key = _local(place)
        if self._claimed.get(key) != token:
            return False
        del self._claimed[key]
        stored = self._memories.read(key)
        if summary is None or not turns or [turn.id for turn in stored[: len(turns)]] != [turn.id for turn in turns]:
            return False
        self._memories.write(key, [summary, *stored[len(turns) :]], ttl_s)
        return True


def _lock(place: Place) -> str:
    execution, session, node = place
    return keys.folding(execution.workflow_id, session, node)


def _local(place: Place) -> tuple[str, str, str]:
    execution, session, node = place
    return execution.workflow_id, session, node


@dataclass(frozen=True, slots=True)
class Limits:
    """When to sum up: more messages, or tokens, than this; 0 is no limit. Half of it is left as it was said, so that
    not every turn costs a summary."""

    messages: int
    tokens: int
    count_tokens: Callable[[Turn], int]

    def exceeded(self, turns: Sequence[Turn]) -> bool:
        return self._beyond(turns, self.messages, self.tokens)

    def to_fold(self, turns: Sequence[Turn]) -> int:
        """How many of the first turns are to be summed up. The newest never is."""
        for count in range(len(turns)):
            if not self._beyond(turns[count:], self.messages // 2, self.tokens // 2):
                return count
        return len(turns) - 1

    def _beyond(self, turns: Sequence[Turn], messages: int, tokens: int) -> bool:
        return bool(
            (self.messages and sum(map(messages_in, turns)) > messages)
            or (self.tokens and sum(map(self.count_tokens, turns)) > tokens)
        )


Summarise = Callable[[str, Sequence[Turn]], Awaitable[str]]
"""(the summary so far, the turns to be added) -> the new summary. Raises `ModelFailed`."""
Pull = Callable[[], Awaitable[tuple[Limits, Summarise]]]
"""What only who writes needs: a chat that is merely read again may have no way to the model."""


class SummaryMemory:
    """`memory` holds all turns, the summary before them. Where the model fails they stay as they are, and the next turn
    tries again."""

    def __init__(self, memory: Memory, folds: Folds | None, place: Place, pull: Pull, *, ttl_s: int) -> None:
        self.window = memory.window
        self._memory = memory
        self._folds = folds
        self._place = place
        self._pull = pull
        self._ttl_s = ttl_s

    async def load(self) -> History:
        return History(stored := await self._memory.load(), getattr(stored, "notes", ()))

    async def append(self, turn: Turn) -> None:
        limits, summarise = await self._pull()
        await self._memory.append(turn)
        if turn.cut_off:  # somebody waits for the stop
            return
        if self._folds is not None and limits.exceeded(_split(await self._memory.load())[1]):
            await self._fold(self._folds, limits, summarise)

    async def replace(self, turns: Sequence[Turn]) -> None:
        await self._memory.replace(turns)

    async def clear(self) -> None:
        await self._memory.clear()

    async def _fold(self, folds: Folds, limits: Limits, summarise: Summarise) -> None:
        token = await folds.claim(self._place)
        if token is None:
            return
        summary: Turn | None = None
        folded: list[Turn] = []
        try:
            before, turns = _split(await self._memory.load())
            if limits.exceeded(turns) and (count := limits.to_fold(turns)):
                text = await summarise("" if before is None else text_of(before), turns[:count])
                folded = [*([] if before is None else [before]), *turns[:count]]
                summary = _summary(text, folded)
        except ModelFailed as error:
            log.warning("history is not summed up", session=self._place[1], error=error.message)
        finally:
            if not await folds.fold(self._place, token, folded, summary, self._ttl_s) and summary is not None:
                log.warning("summary came too late: the history has changed", session=self._place[1])


def _split(turns: Sequence[Turn]) -> tuple[Turn | None, list[Turn]]:
    if turns and turns[0].id.startswith(SUMMARY):
        return turns[0], list(turns[1:])
    return None, list(turns)


def _summary(text: str, folded: Sequence[Turn]) -> Turn:
    text = text.encode()[: MAX_MESSAGE_BYTES // 2].decode(errors="ignore")
    last = folded[-1]
    return Turn(f"{SUMMARY}{last.id}", BEFORE + text, AFTER, (), folded[0].started, last.ended, hidden=True)


def text_of(summary: Turn) -> str:
    return summary.user.removeprefix(BEFORE)
