"""Loop Over Items (n8n's Split in Batches): gives its items a batch at a time, and when all are through what came back.

Its items are not copied: a run notes in which earlier run of its own they came in.
"""

from __future__ import annotations

from typing import Any

from convoq.contract.context import RunContext
from convoq.contract.definition import Node
from convoq.contract.items import Item, PairedItem
from convoq.contract.node import MainNode
from convoq.contract.parameters import Parameters, parameter


class Options(Parameters):
    reset: bool = False


class LoopParameters(Parameters):
    batch_size: int = parameter(1, ge=1)
    options: Options = Options()


class LoopNode(MainNode[LoopParameters]):
    """Outputs are done, loop; in version 2 loop, done; version 1 has no output for the end."""

    type = "n8n-nodes-base.splitInBatches"
    versions = (1, 3)
    parameters_class = LoopParameters
    pure = True

    def output_count(self, node: Node) -> int:
        return 1 if node.type_version < 2 else 2

    async def run(self, ctx: RunContext[LoopParameters]) -> list[list[Item]]:
        given, kept = await ctx.parameters(), ctx.kept
        size = given.batch_size
        if not kept or given.options.reset:
            batches = -(-len(ctx.items) // size)
            kept.update(first=ctx.run_index, taken=0, currentRunIndex=0, maxRunIndex=batches)
        else:
            kept["currentRunIndex"] += 1
        first, at = int(kept["first"]), int(kept["taken"])
        if first == ctx.run_index:
            items, run = ctx.items, None
        else:
            items, run = ctx.earlier_items(first), first
        batch = [
            Item(item.json, item.binary, PairedItem(at + index, run=run))
            for index, item in enumerate(items[at : at + size])
        ]
        kept.update(taken=at + len(batch), noItemsLeft=at + len(batch) >= len(items), done=not batch)
        done = [] if batch else _come_back(ctx, first)
        if ctx.node.type_version < 2:
            return [batch]
        return [batch, done] if ctx.node.type_version < 3 else [done, batch]


def _come_back(ctx: RunContext[Any], first: int) -> list[Item]:
    """What came in after the run in which the items came, this run's own included."""
    found = []
    for run in range(first + 1, ctx.run_index + 1):
        items = ctx.items if run == ctx.run_index else ctx.earlier_items(run)
        origin = None if run == ctx.run_index else run
        found += [Item(item.json, item.binary, PairedItem(at, run=origin)) for at, item in enumerate(items)]
    return found
