"""What stands in for a node that convoq cannot run: it fails when an execution reaches it, and says why."""

from __future__ import annotations

from typing import Any, NoReturn

from convoq.contract.connections import ConnectionType
from convoq.contract.context import Context, RunContext
from convoq.contract.node import MainNode, SubNode
from convoq.contract.parameters import Parameters
from convoq.errors import NodeUnsupported


class UnsupportedNode(MainNode[Parameters]):
    type = ""
    versions = (0, 1000)

    def __init__(self, reason: str) -> None:
        self.reason = reason

    async def run(self, ctx: RunContext[Any]) -> NoReturn:
        raise NodeUnsupported(f"{ctx.node.name}: {self.reason}", node=ctx.node.name)


class UnsupportedSubNode(SubNode[Parameters]):
    type = ""
    versions = (0, 1000)

    def __init__(self, reason: str, supplies: ConnectionType) -> None:
        self.reason = reason
        self.supplies = supplies  # type: ignore[misc]  # of this one, as its connection has it

    async def supply(self, ctx: Context[Any], item_index: int) -> NoReturn:
        raise NodeUnsupported(f"{ctx.node.name}: {self.reason}", node=ctx.node.name)
