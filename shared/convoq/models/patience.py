"""How long a model's server may say nothing."""

from __future__ import annotations

import asyncio

from convoq.contract.model import ModelSettings

AFTER_FINISH_S = 2.0
"""For what may follow the reason why the model stopped: its usage, and the end. The answer is whole without."""


class Patience:
    """The waits for one answer: the first counts from here on, each later one from its beginning.

    `async with patience.wait():` around each wait for bytes (and nothing else) raises `TimeoutError`; `silence` is then
    what happened, in words. `heard` and `finished` are to be told by who reads.
    """

    def __init__(self, settings: ModelSettings) -> None:
        self._first_s = settings.first_byte_timeout_s
        self._next_s = settings.between_chunks_timeout_s
        self._deadline = asyncio.get_running_loop().time() + self._first_s
        self._heard = False

    def wait(self) -> asyncio.Timeout:
        return asyncio.timeout(self._next_s) if self._heard else asyncio.timeout_at(self._deadline)

    def heard(self) -> None:
        self._heard = True

    def finished(self) -> None:
        self._next_s = min(self._next_s, AFTER_FINISH_S)

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
