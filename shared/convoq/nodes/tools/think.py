"""Think Tool: a place for a model to think in before it acts. It gives back what it was given."""

from __future__ import annotations

from convoq.contract.connections import ConnectionType
from convoq.contract.context import Context
from convoq.contract.node import SubNode
from convoq.contract.parameters import Parameters
from convoq.contract.tool import Tool
from convoq.nodes.tools.simple import TextTool

DESCRIPTION = (
    "Write down a thought. It fetches nothing and changes nothing; use it to reason step by step or to keep something "
    "in mind before you act."
)


class ThinkParameters(Parameters):
    description: str = DESCRIPTION


class ThinkNode(SubNode[ThinkParameters]):
    type = "@n8n/n8n-nodes-langchain.toolThink"
    versions = (1, 1.1)
    parameters_class = ThinkParameters
    supplies = ConnectionType.TOOL

    async def supply(self, ctx: Context[ThinkParameters], item_index: int) -> Tool:
        name = ctx.node.name if ctx.node.type_version >= 1.1 else "thinking_tool"
        return TextTool(name, (await ctx.parameters(item_index)).description or DESCRIPTION, _same)


async def _same(text: str) -> str:
    return text
