"""What nodes may use of the outside world, made once per process and handed down."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from convoq.contract.binary import BinaryStore, LocalBinaries
from convoq.contract.execution import ExecutionInfo
from convoq.contract.memory import Memory

if TYPE_CHECKING:
    import aiohttp

    from convoq.settings import Settings

T = TypeVar("T")

CLOSE_S = 0.3
"""How long the end of a process waits for a part: a database that is away must not keep it alive."""


class OpenMemory(Protocol):
    """Open the default memory of (workflow, session, memory node) for one execution, which also fences its writes."""

    def __call__(self, execution: ExecutionInfo, session: str, node: str, *, window: int, ttl_s: int) -> Memory: ...


class FindCredential(Protocol):
    """The fields of a credential of type `kind` that a node refers to (`{"id", "name"}`, or nothing), None where there
    is none."""

    async def __call__(self, kind: str, reference: Mapping[str, Any]) -> Mapping[str, Any] | None: ...


class ImpliedCredential(dict[str, Any]):
    """One that the node's file does not name, but of the type it wants. Who sends it to an address that the workflow
    chose makes a present of it to the workflow's author: to the provider's own address only."""


class FindWorkflow(Protocol):
    """The workflow of that id, or that definition, for a call by another one, as the engine has it; None where there is
    none. Raises `InvalidWorkflow`."""

    async def __call__(self, workflow: str | Mapping[str, Any]) -> Any: ...


async def no_workflow(workflow: str | Mapping[str, Any]) -> Any:
    return None


async def no_credential(kind: str, reference: Mapping[str, Any]) -> Mapping[str, Any] | None:
    return None


class Services:
    """`http` gives the process's shared connection pool (made on first use, in the running loop).

    What only some nodes use is a part, found by its class and made on first use where none was given: the contract need
    not know of it.
    """

    def __init__(
        self,
        settings: Settings,
        open_memory: OpenMemory,
        http: Callable[[], aiohttp.ClientSession],
        *,
        credential: FindCredential = no_credential,
        workflow: FindWorkflow = no_workflow,
        binaries: BinaryStore | None = None,
        clock: Callable[[], float] = time.time,
        parts: Iterable[object] = (),
    ) -> None:
        self.settings = settings
        self.open_memory = open_memory
        self.http = http
        self.credential = credential
        self.workflow = workflow
        self.binaries = binaries or LocalBinaries()
        self.clock = clock
        self._parts: dict[type[object], object] = {type(part): part for part in parts}

    def part(self, kind: type[T]) -> T:
        """The process's one object of that class."""
        found = self._parts.get(kind)
        if found is None:
            found = self._parts[kind] = kind()
        assert isinstance(found, kind)
        return found

    async def close(self) -> None:
        """Close the parts that have something to close (`async close()`); none is waited for long."""
        for part in self._parts.values():
            if (close := getattr(part, "close", None)) is not None:
                with suppress(TimeoutError):
                    async with asyncio.timeout(CLOSE_S):
                        await close()
