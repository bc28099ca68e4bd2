"""Manual Trigger: where a workflow starts by hand; nothing starts here in production."""

from __future__ import annotations

from typing import Any

from convoq.contract.context import RunContext
from convoq.contract.items import Outputs
from convoq.contract.node import MainNode
from convoq.contract.parameters import Parameters


class ManualTriggerNode(MainNode[Parameters]):
    type = "n8n-nodes-base.manualTrigger"
    aliases = ("n8n-nodes-base.start",)
    versions = (1, 1)
    is_trigger = True
    pure = True

    async def run(self, ctx: RunContext[Any]) -> Outputs:
        return [list(ctx.items)]
