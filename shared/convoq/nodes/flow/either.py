"""The conditions of a node, in the form of the first versions or in that of the later ones."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Discriminator, Tag

from convoq.contract.context import Context
from convoq.contract.definition import Node
from convoq.nodes.flow.conditions import Conditions, never_holding
from convoq.nodes.flow.old_conditions import OldConditions


def _form(raw: object) -> str:
    """By the conditions themselves: versions say little here, hands and tools have mixed the forms."""
    if isinstance(raw, dict):
        return "conditions" if {"conditions", "combinator", "options"} & set(raw) else "old"
    return "old" if isinstance(raw, OldConditions) else "conditions"


EitherConditions = Annotated[
    Annotated[Conditions, Tag("conditions")] | Annotated[OldConditions, Tag("old")], Discriminator(_form)
]


async def hold(ctx: Context[Any], given: EitherConditions, item_index: int, *, any_: bool) -> bool:
    """`any_` counts for the old form: that one of its conditions is enough. Raises `NodeFailed`."""
    if isinstance(given, OldConditions):
        return await given.hold(ctx, item_index, any_=any_)
    return await given.hold(ctx, item_index)


def warning(node: Node) -> str | None:
    """What to say of the node's conditions when a file is read."""
    found = node.parameters.get("conditions")
    return never_holding(found.get("conditions")) if isinstance(found, dict) else None
