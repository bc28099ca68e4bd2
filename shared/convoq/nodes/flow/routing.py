"""Sending each item to outputs of a node's choice."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from convoq.contract.context import RunContext
from convoq.contract.items import Item
from convoq.errors import NodeFailed

Route = Sequence[int]
"""The outputs that an item goes to."""


async def route(
    ctx: RunContext[Any], outputs: int, choose: Callable[[int], Awaitable[Route]], *, unfit: int | None = None
) -> list[list[Item]]:
    """The items by output, chosen by item index.

    An item whose choice fails goes, with `onError` set, to the error output, which comes last, or to output `unfit` as
    it is; without such an output, output 0 gets an item that tells the error.
    """
    on_error = ctx.node.on_error
    sent: list[list[Item]] = [[] for _ in range(outputs)]
    failed: list[Item] = []
    for index, item in enumerate(ctx.items):
        passed = Item(item.json, item.binary, index)
        try:
            chosen = await choose(index)
        except NodeFailed as error:
            if on_error == "stopWorkflow" or not ctx.last_try:
                raise
            if on_error == "continueErrorOutput":
                failed.append(Item({**item.json, "error": error.message}, item.binary, index))
            elif unfit is None:
                sent[0].append(Item({"error": error.message}, paired_item=index))
            else:
                sent[unfit].append(passed)
            continue
        for output in chosen:
            sent[output].append(passed)
    return [*sent, failed] if on_error == "continueErrorOutput" else sent
