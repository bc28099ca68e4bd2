"""What keeps a database from answering for a while, and how long a memory waits for it to pass."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from itertools import chain, repeat
from typing import TypeVar

import structlog

T = TypeVar("T")
log = structlog.get_logger()

PATIENCE_S = 2.0
PAUSES_S = (0.0, 0.05, 0.1, 0.25, 0.5, 1.0)
"""The first is none: most often it was an idle connection that the server had closed."""
SHOWN_CHARS = 300


@dataclass(frozen=True, slots=True)
class Trouble:
    """`what` the server does, in words. `undone`: what was asked of it was not done, for sure."""

    what: str
    undone: bool = False


class Troubled(Exception):
    """It did not pass in time, or trying again could do something twice. The cause is the server's own error."""


class NotConnected(Exception):
    """Raised from what kept a connection from being made: nothing was sent."""


async def patiently(
    call: Callable[[], Awaitable[T]],
    trouble_of: Callable[[Exception], Trouble | None],
    *,
    patience_s: float,
    again: bool,
) -> T:
    """`again`: whether doing it twice does no harm. What is no trouble that passes is raised as it is.

    Raises `Troubled`.
    """
    loop = asyncio.get_running_loop()
    began = loop.time()
    for pause_s in chain(PAUSES_S, repeat(PAUSES_S[-1])):
        try:
            return await call()
        except Exception as error:
            if (trouble := trouble_of(error)) is None:
                raise
            cause = error.__cause__ if isinstance(error, NotConnected) else error
            error_text = (str(cause) or type(cause).__name__)[:SHOWN_CHARS]
            said = f"the server {trouble.what} ({error_text})"
            if not again and not trouble.undone:
                raise Troubled(f"{said}; whether it was done is not known") from cause
            if loop.time() + pause_s - began > patience_s:
                raise Troubled(f"{said}, for {patience_s:g} s") from cause
            log.warning("memory is tried again", trouble=trouble.what, error=error_text)
        await asyncio.sleep(pause_s)
    raise AssertionError("pauses never end")
