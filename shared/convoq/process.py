"""What every long-lived process of convoq does at its start, and how it is told to end."""

from __future__ import annotations

import asyncio
import gc
import signal
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, TypeVar

from convoq.logs import configure_logs
from convoq.settings import Settings

T = TypeVar("T")

GC_THRESHOLD = 20_000
"""Python's 700 lets a loaded process look for garbage dozens of times a message, though its objects die by reference
count."""
SIGNALS = (signal.SIGTERM, signal.SIGINT)


def set_up(settings: Settings) -> None:
    """Logs; and what is imported by now is never looked through for garbage again."""
    configure_logs(settings)
    gc.collect()
    gc.freeze()
    gc.set_threshold(GC_THRESHOLD, 20, 20)


class StopAsked(Exception):
    """What was begun is not wanted any more."""


class Stop:
    """The signals that end a process, as events of its loop: `asked` by the first, `hurried` by the next.

    The handlers stay: one signal more, at the very end, must not make a failure of a good end.
    """

    def __init__(self, *numbers: signal.Signals) -> None:
        self.asked, self.hurried = asyncio.Event(), asyncio.Event()
        self._loop = asyncio.get_running_loop()
        for number in numbers or SIGNALS:
            signal.signal(number, self._came)

    def _came(self, *_: object) -> None:
        with suppress(RuntimeError):  # the loop is closed: the process is at its end
            self._loop.call_soon_threadsafe(self.ask)

    def ask(self) -> None:
        (self.hurried if self.asked.is_set() else self.asked).set()

    async def or_result(self, work: Coroutine[Any, Any, T]) -> T:
        """The work's result. Raises `StopAsked`, and cancels the work, where the stop is asked for first."""
        task, asked = asyncio.create_task(work), asyncio.create_task(self.asked.wait())
        try:
            await asyncio.wait({task, asked}, return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                return task.result()
            raise StopAsked
        finally:
            asked.cancel()
            if not task.done():
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
