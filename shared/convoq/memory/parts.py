"""What the memory nodes use of a process, beside the default memory."""

from __future__ import annotations

from convoq.memory.pools import Pools
from convoq.memory.summary import Folds
from convoq.memory.thread import ReadThread, no_thread


class MemoryParts:
    """`read_thread` reads what a session's chat saw, `folds` puts summaries into memories that `open_memory` opens;
    `pools` are the connections to servers that credentials name."""

    def __init__(
        self, read_thread: ReadThread = no_thread, folds: Folds | None = None, pools: Pools | None = None
    ) -> None:
        self.read_thread = read_thread
        self.folds = folds
        self.pools = pools or Pools()

    async def close(self) -> None:
        await self.pools.close()
