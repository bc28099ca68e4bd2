"""MongoDB Chat Memory: sessions in n8n's collection."""

from __future__ import annotations

from pydantic import Field

from convoq.contract.context import Context
from convoq.contract.memory import Memory
from convoq.memory.mongo import MongoMemory
from convoq.memory.parts import MemoryParts
from convoq.nodes.memory.session import SessionMemoryNode, SessionParameters, claims_of


class MongoChatParameters(SessionParameters):
    collection: str = Field("n8n_chat_histories", alias="collectionName", min_length=1)
    database: str = Field("", alias="databaseName")


class MongoChatMemoryNode(SessionMemoryNode[MongoChatParameters]):
    type = "@n8n/n8n-nodes-langchain.memoryMongoDbChat"
    credentials = ("mongoDb",)
    versions = (1, 1.1)
    parameters_class = MongoChatParameters
    scoped_since = 1.1

    async def supply(self, ctx: Context[MongoChatParameters], item_index: int) -> Memory:
        parameters = await ctx.parameters(item_index)
        fields = await ctx.needed_credential("mongoDb")
        return MongoMemory(
            ctx.services.part(MemoryParts).pools.mongo(fields, parameters.database, parameters.collection),
            await self.session(ctx, item_index),
            window=await self.window(ctx, item_index),
            claims=claims_of(ctx),
        )
