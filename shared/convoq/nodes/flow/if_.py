"""If: items that fulfil the conditions go one way, all others the other way."""

from __future__ import annotations

from typing import Literal

from convoq.contract.context import RunContext
from convoq.contract.definition import Node
from convoq.contract.items import Item
from convoq.contract.node import MainNode
from convoq.contract.parameters import Parameters, parameter
from convoq.nodes.flow.conditions import Conditions, EditorOptions, warning
from convoq.nodes.flow.routing import Route, route


class IfParameters(Parameters):
    conditions: Conditions = Conditions()
    options: EditorOptions = EditorOptions()
    loose_type_validation: bool = parameter(False, versions=(2.1, 1000))
    combine_operation: Literal["all", "any"] = parameter("all")


class IfNode(MainNode[IfParameters]):
    """The first output is for the items that fulfil them."""

    type = "n8n-nodes-base.if"
    versions = (1, 2.3)
    parameters_class = IfParameters
    outputs = 2
    pure = True

    def warn(self, node: Node) -> str | None:
        return warning(node)

    async def run(self, ctx: RunContext[IfParameters]) -> list[list[Item]]:
        async def choose(index: int) -> Route:
            parameters = await ctx.parameters(index)
            any_ = parameters.combine_operation == "any"
            return [0 if await parameters.conditions.hold(ctx, index, any_=any_) else 1]

        return await route(ctx, 2, choose, unfit=1)
