"""What a memory asks of a Redis server."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from convoq.redis import Argument, Script


class Server(Protocol):
    """convoq's own (a `Pipe`), or the one that a credential names."""

    async def command(self, *arguments: Argument) -> object: ...

    async def run(self, script: Script, keys: Sequence[str], arguments: Sequence[Argument]) -> object: ...
