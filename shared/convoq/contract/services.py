"""What nodes may use of the outside world, made once per process and handed down."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from convoq.contract.memory import Memory
from convoq.memory.pools import Pools
from convoq.memory.thread import ReadThread, no_thread

if TYPE_CHECKING:
    import aiohttp

    from convoq.contract.base import ExecutionInfo
    from convoq.memory.summary import Folds
    from convoq.settings import Settings


class OpenMemory(Protocol):
    """Open the default memory of (workflow, session, memory node) for one execution, which also fences its writes."""

    def __call__(self, execution: ExecutionInfo, session: str, node: str, *, window: int, ttl_s: int) -> Memory: ...


@dataclass(frozen=True)
class Services:
    """`http` gives the process's shared connection pool (made on first use, in the running loop).

    `read_thread` reads what a session's chat saw, `folds` puts summaries into memories that `open_memory` opens;
    `pools` are the connections to servers that credentials name.
    `credential` resolves a node's credential reference (`{"id", "name"}`, of a credential type) to its fields, or None.
    """

    settings: Settings
    open_memory: OpenMemory
    http: Callable[[], aiohttp.ClientSession]
    credential: Callable[[str, Mapping[str, Any]], Mapping[str, Any] | None] = lambda kind, reference: None
    read_thread: ReadThread = no_thread
    folds: Folds | None = None
    clock: Callable[[], float] = field(default=time.time)
    pools: Pools = field(default_factory=Pools)
