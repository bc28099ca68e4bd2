"""Calculator: arithmetic for models, which are bad at it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from convoq.contract.connections import ConnectionType
from convoq.contract.context import Context
from convoq.contract.model import ToolSpec
from convoq.contract.node import SubNode
from convoq.contract.parameters import Parameters
from convoq.contract.tool import Tool, tool_name
from convoq.errors import ToolFailed
from convoq.nodes.tools.arithmetic import calculate

DESCRIPTION = (
    "Calculates the value of an arithmetic expression. Knows + - * / // % ^ and parentheses, sqrt, abs, round, "
    "min, max, sin, cos, tan (radians), log (base 10), ln, exp, pi and e."
)
SCHEMA = {
    "type": "object",
    "properties": {"input": {"type": "string", "description": "the expression, for example (19 + 4) * 23"}},
    "required": ["input"],
    "additionalProperties": False,
}


class Calculator:
    pure = True

    def __init__(self, name: str) -> None:
        self.spec = ToolSpec(name, DESCRIPTION, SCHEMA)

    async def call(self, arguments: Mapping[str, Any]) -> str:
        expression = arguments.get("input")
        if isinstance(expression, bool) or not isinstance(expression, str | int | float):
            raise ToolFailed("argument 'input' must be a text with an arithmetic expression")
        return calculate(str(expression))


class CalculatorNode(SubNode[Parameters]):
    type = "@n8n/n8n-nodes-langchain.toolCalculator"
    versions = (1, 1)
    parameters_class = Parameters
    supplies = ConnectionType.TOOL

    async def supply(self, ctx: Context[Parameters], item_index: int) -> Tool:
        return Calculator(tool_name(ctx.node.name))
