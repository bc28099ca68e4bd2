"""What a process wrote in the last seconds, kept for a server that comes back as it was before.

A replica that lagged is promoted, an append-only file has lost its end: what had been acknowledged is gone. Scripts
that may be run again say so (`--!again`); those of the last seconds are, in their order, by every process that wrote.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

from convoq.redis.scripts import Script

KEEP_S = 5.0
"""Well over what is lost in practice: an append-only file synced every second, a replica that lags."""
KEEP_BYTES = 32 << 20


@dataclass(slots=True)
class Written:
    """One call: `words` is what was sent. `at` is monotonic, in seconds."""

    at: float
    script: Script
    words: bytes


class Journal:
    def __init__(self) -> None:
        self._calls: deque[Written] = deque()
        self._bytes = 0

    def __iter__(self) -> Iterator[Written]:
        return iter(self._calls)

    def __len__(self) -> int:
        return len(self._calls)

    def add(self, now: float, script: Script, words: bytes) -> None:
        self._calls.append(Written(now, script, words))
        self._bytes += len(words)
        self.prune(now)

    def prune(self, now: float) -> None:
        """Forget what is too old, and the oldest of too much."""
        while self._calls and (self._calls[0].at < now - KEEP_S or self._bytes > KEEP_BYTES):
            self._bytes -= len(self._calls.popleft().words)

    def renew(self, now: float) -> None:
        """All of it was written just now."""
        for call in self._calls:
            call.at = now
