"""Calls of a model that are tried again, for as long as nothing was said."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing

from convoq.contract.model import Delta, ReasoningDelta
from convoq.errors import ModelFailed

BACKOFF_S = 0.5
MAX_WAIT_S = 5.0
"""A server that asks for more patience than this fails the call: somebody is waiting for the answer."""
STATUSES = frozenset({408, 409, 429, 500, 502, 503, 504, 529})
"""Of a server, and of a proxy before it, that may answer the next time."""


class Transient(Exception):
    """A failure that may pass. `wait_s` is what the server asked for."""

    def __init__(self, failure: ModelFailed, wait_s: float | None = None) -> None:
        super().__init__(failure.message)
        self.failure = failure
        self.wait_s = wait_s


async def retrying(
    attempt: Callable[[], AsyncGenerator[Delta, None]], most: int, backoff_s: float = BACKOFF_S
) -> AsyncGenerator[Delta, None]:
    """What the attempts give, at most `most` after the first. Raises the last one's failure."""
    said = False
    for number in range(most + 1):
        try:
            async with aclosing(attempt()) as deltas:
                async for delta in deltas:
                    said = said or not isinstance(delta, ReasoningDelta)
                    yield delta
            return
        except Transient as error:
            if said or number == most or (error.wait_s or 0) > MAX_WAIT_S:
                raise error.failure from error.__cause__
            wait_s = backoff_s * 2**number * random.uniform(0.75, 1.25)
            await asyncio.sleep(wait_s if error.wait_s is None else error.wait_s)
