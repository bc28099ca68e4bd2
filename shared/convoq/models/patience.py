"""How long a model's server may say nothing."""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Self

from convoq.contract.model import ModelSettings

AFTER_FINISH_S = 2.0
"""For what may follow the reason why the model stopped: its usage, and the end. The answer is whole without."""


class Patience:
    """The waits for one answer: the first counts from here on, each later one from its beginning.

    `with patience:` around each wait for bytes, and nothing else, raises `TimeoutError`; `silence` is then what
    happened, in words. `heard` and `finished` are to be told by who reads, `close` ends it. As `asyncio.timeout`, but
    with one timer an answer and not one a token: it is moved on when it rings too early.
    """

    def __init__(self, settings: ModelSettings) -> None:
        self._loop = asyncio.get_running_loop()
        self._first_s = settings.first_byte_timeout_s
        self._next_s = settings.between_chunks_timeout_s
        self._deadline = self._loop.time() + self._first_s
        self._timer: asyncio.TimerHandle | None = None
        self._waiting: asyncio.Task[object] | None = None
        self._cancelling = 0
        self._heard = self._rang = False

    def __enter__(self) -> Self:
        task = self._waiting = asyncio.current_task()
        assert task is not None
        self._cancelling = task.cancelling()
        if self._heard:
            self._deadline = self._loop.time() + self._next_s
        if self._timer is None:
            self._timer = self._loop.call_at(self._deadline, self._ring)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        task, self._waiting = self._waiting, None
        if self._rang and task is not None:
            self._rang = False
            if task.uncancel() <= self._cancelling and kind is asyncio.CancelledError:
                raise TimeoutError from error

    def heard(self) -> None:
        if not self._heard:
            self._heard = True
            self.close()  # what it waited for has come

    def finished(self) -> None:
        if self._next_s > AFTER_FINISH_S:
            self._next_s = AFTER_FINISH_S
            self.close()

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    @property
    def silence(self) -> str:
        if self._heard:
            return (
                f"sent nothing for {self._next_s:g} s in the middle of its answer: "
                "the time-out between chunks (CONVOQ_MODEL_BETWEEN_CHUNKS_TIMEOUT_S, or the node's option 'Timeout')"
            )
        return (
            f"sent nothing for {self._first_s:g} s after it was asked: "
            "the time-out for the first byte (CONVOQ_MODEL_FIRST_BYTE_TIMEOUT_S, or the node's option 'Timeout')"
        )

    def _ring(self) -> None:
        self._timer = None
        if self._waiting is None:
            return  # what takes long is not the server: the next wait sets it again
        if self._loop.time() < self._deadline:
            self._timer = self._loop.call_at(self._deadline, self._ring)
        else:
            self._rang = True
            self._waiting.cancel()
