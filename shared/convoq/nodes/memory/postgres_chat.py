"""Postgres Chat Memory: sessions in n8n's table."""

from __future__ import annotations

from pydantic import Field

from convoq.contract.context import Context
from convoq.contract.memory import Memory
from convoq.memory.parts import MemoryParts
from convoq.memory.postgres import PostgresMemory
from convoq.nodes.memory.session import SessionMemoryNode, SessionParameters, claims_of


class PostgresChatParameters(SessionParameters):
    table: str = Field("n8n_chat_histories", alias="tableName")


class PostgresChatMemoryNode(SessionMemoryNode[PostgresChatParameters]):
    type = "@n8n/n8n-nodes-langchain.memoryPostgresChat"
    credentials = ("postgres",)
    versions = (1, 1.4)
    parameters_class = PostgresChatParameters
    window_since = 1.1
    scoped_since = 1.4

    async def supply(self, ctx: Context[PostgresChatParameters], item_index: int) -> Memory:
        fields = await ctx.needed_credential("postgres")
        table = await ctx.services.part(MemoryParts).pools.postgres(fields, (await ctx.parameters(item_index)).table)
        return PostgresMemory(
            table,
            await self.session(ctx, item_index),
            window=await self.window(ctx, item_index),
            claims=claims_of(ctx),
        )
