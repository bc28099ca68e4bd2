"""Order of arrival where something has to be waited for on the way."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field


@dataclass(slots=True)
class _Gate:
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    users: int = 0


class Turnstile:
    """One at a time through the gate of a key. Who comes later does not overtake who still waits: asyncio's locks are
    fair."""

    def __init__(self) -> None:
        self._gates: dict[str, _Gate] = {}

    @asynccontextmanager
    async def at(self, key: str) -> AsyncIterator[None]:
        gate = self._gates.setdefault(key, _Gate())
        gate.users += 1
        try:
            async with gate.lock:
                yield
        finally:
            gate.users -= 1
            if not gate.users:
                del self._gates[key]

    def busy(self, key: str) -> bool:
        """Whether somebody is at that gate."""
        return key in self._gates
