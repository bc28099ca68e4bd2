"""No Operation: passes its items on."""

from __future__ import annotations

from typing import Any

from convoq.contract.context import RunContext
from convoq.contract.items import Item
from convoq.contract.node import MainNode
from convoq.contract.parameters import Parameters


class NoOpNode(MainNode[Parameters]):
    type = "n8n-nodes-base.noOp"
    versions = (1, 1)
    pure = True

    async def run(self, ctx: RunContext[Any]) -> list[list[Item]]:
        return [[Item(item.json, item.binary, index) for index, item in enumerate(ctx.items)]]
