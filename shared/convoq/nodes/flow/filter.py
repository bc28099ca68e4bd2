"""Filter: only items that fulfil the conditions go on."""

from __future__ import annotations

from typing import Literal

from convoq.contract.context import RunContext
from convoq.contract.definition import Node
from convoq.contract.items import Item
from convoq.contract.node import MainNode
from convoq.contract.parameters import Parameters, parameter
from convoq.nodes.flow.conditions import Conditions, EditorOptions, warning
from convoq.nodes.flow.routing import Route, route


class FilterParameters(Parameters):
    conditions: Conditions = Conditions()
    options: EditorOptions = EditorOptions()
    loose_type_validation: bool = parameter(False, versions=(2.1, 1000))
    combine_conditions: Literal["AND", "OR"] = parameter("AND")


class FilterNode(MainNode[FilterParameters]):
    """The second output, which n8n's editor does not show, has the items that were left out."""

    type = "n8n-nodes-base.filter"
    versions = (1, 2.3)
    parameters_class = FilterParameters
    pure = True

    def warn(self, node: Node) -> str | None:
        return warning(node)

    async def run(self, ctx: RunContext[FilterParameters]) -> list[list[Item]]:
        async def choose(index: int) -> Route:
            parameters = await ctx.parameters(index)
            any_ = parameters.combine_conditions == "OR"
            return [0 if await parameters.conditions.hold(ctx, index, any_=any_) else 1]

        kept, discarded, *failed = await route(ctx, 2, choose, unfit=1)
        return [kept, *failed] if failed else [kept, discarded]
