"""Simple Memory: the last turns of a session, in convoq's own store."""

from __future__ import annotations

from typing import TYPE_CHECKING

from convoq.contract.context import Context
from convoq.contract.memory import Memory
from convoq.nodes.memory.session import SessionMemoryNode, SessionParameters, session_of

if TYPE_CHECKING:
    from convoq.contract.definition import Node


class SimpleMemoryNode(SessionMemoryNode[SessionParameters]):
    type = "@n8n/n8n-nodes-langchain.memoryBufferWindow"
    versions = (1, 1.4)
    parameters_class = SessionParameters

    async def supply(self, ctx: Context[SessionParameters], item_index: int) -> Memory:
        window = await self.window(ctx, item_index)
        return ctx.services.open_memory(
            ctx.execution,
            await session_of(ctx, item_index),
            ctx.node.name,
            window=window,
            ttl_s=ctx.services.settings.memory_ttl_s,
        )


class _Retired(SimpleMemoryNode):
    """Memories of services that n8n has given up: what an imported workflow has of them works as Simple Memory."""

    def warn(self, node: Node) -> str | None:
        service = node.type.rpartition(".memory")[2]
        return f"{service} memory is deprecated in n8n: convoq keeps its history as Simple Memory does"


class ZepMemoryNode(_Retired):
    title = "Zep (kept as Simple Memory)"
    type = "@n8n/n8n-nodes-langchain.memoryZep"


class XataMemoryNode(_Retired):
    title = "Xata (kept as Simple Memory)"
    type = "@n8n/n8n-nodes-langchain.memoryXata"
    versions = (1, 1.5)


class MotorheadMemoryNode(_Retired):
    title = "Motorhead (kept as Simple Memory)"
    type = "@n8n/n8n-nodes-langchain.memoryMotorhead"
