"""Whole dialogue: a session's memory that no window trims."""

from __future__ import annotations

from convoq.contract.connections import ConnectionType
from convoq.contract.context import Context
from convoq.contract.memory import MAX_WINDOW, Memory
from convoq.contract.node import SubNode
from convoq.nodes.memory.session import SessionParameters, session_of


class WholeMemoryNode(SubNode[SessionParameters]):
    """Bounded all the same: beyond `MAX_WINDOW` turns the oldest fall out, and a turn with which the session would be
    larger than `MAX_SESSION_BYTES` fails with an error that says so. Parameters are Simple Memory's, without a window.
    """

    type = "convoq.memoryWhole"
    aliases = ("whole_memory",)
    versions = (1, 1)
    parameters_class = SessionParameters
    supplies = ConnectionType.MEMORY

    async def supply(self, ctx: Context[SessionParameters], item_index: int) -> Memory:
        return ctx.services.open_memory(
            ctx.execution,
            await session_of(ctx, item_index, 1),
            ctx.node.name,
            window=MAX_WINDOW,
            ttl_s=ctx.services.settings.memory_ttl_s,
        )
