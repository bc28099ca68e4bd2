"""The thread of a session: what its chat saw, whatever memories the workflow has or had.

A list of exchanges, written in the step that ends a successful execution (`lua/finish.lua`, which also bounds it to
8 MiB). It lives as long as a memory does: its time-to-live is renewed by each exchange.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import msgspec
from redis.exceptions import RedisError

from convoq import keys
from convoq.errors import MemoryFailed, Unavailable
from convoq.redis import Pipe

THREAD_MAX = 1000
"""Exchanges kept of one session; the oldest fall out."""
TEXT_MAX_CHARS = 100_000
"""Of one text of an exchange; what is over that is cut off."""


class Exchange(msgspec.Struct, frozen=True, omit_defaults=True):
    """A user's message and the final answer. `at` and `answered` are seconds since 1970."""

    id: str
    user: str
    answer: str
    at: float = 0.0
    answered: float = 0.0

    def encoded(self) -> bytes:
        short = msgspec.structs.replace(self, user=self.user[:TEXT_MAX_CHARS], answer=self.answer[:TEXT_MAX_CHARS])
        return msgspec.json.encode(short)


decode_exchange = msgspec.json.Decoder(Exchange).decode


class ReadThread(Protocol):
    """The last `limit` exchanges of (workflow, session), oldest first. Raises `MemoryFailed`."""

    async def __call__(self, workflow_id: str, session_id: str, limit: int, /) -> Sequence[Exchange]: ...


class RedisThreads:
    def __init__(self, pipe: Pipe) -> None:
        self._pipe = pipe

    async def __call__(self, workflow_id: str, session_id: str, limit: int) -> Sequence[Exchange]:
        key = keys.thread(workflow_id, session_id)
        try:
            return [decode_exchange(raw) for raw in await self._pipe.command("LRANGE", key, -limit, -1)]
        except (RedisError, Unavailable, msgspec.DecodeError) as error:
            raise MemoryFailed(f"cannot read the thread {key!r}: {error}") from error


async def no_thread(workflow_id: str, session_id: str, limit: int) -> Sequence[Exchange]:
    """Where nobody keeps threads: a run without a queue."""
    return ()
