"""Nodes that do the same to each item, so that one bad item does not spoil the others."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from convoq.contract.context import RunContext
from convoq.contract.items import Item
from convoq.errors import NodeFailed


async def per_item(ctx: RunContext[Any], make: Callable[[int], Awaitable[Item | Sequence[Item]]]) -> list[list[Item]]:
    """What `make` gives for each item index, one item or several.

    With `onError` set, an item that fails becomes one that says so, on output 0 or on the error output; while there are
    tries left the failure is the node's.
    """
    on_error = ctx.node.on_error
    good: list[Item] = []
    bad: list[Item] = []
    for index, item in enumerate(ctx.items):
        try:
            made = await make(index)
            good += [made] if isinstance(made, Item) else made
        except NodeFailed as error:
            if on_error == "stopWorkflow" or not ctx.last_try:
                raise
            if on_error == "continueRegularOutput":
                good.append(Item({"error": error.message}, paired_item=index))
            else:
                bad.append(Item({**item.json, "error": error.message}, item.binary, index))
    return [good, bad] if on_error == "continueErrorOutput" else [good]
