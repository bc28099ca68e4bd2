"""MongoDB Chat Memory: sessions in n8n's collection."""

from __future__ import annotations

from pydantic import Field

from convoq.contract.base import Context
from convoq.contract.memory import Memory
from convoq.memory.mongo import MongoMemory
from convoq.nodes.memory.session import SessionMemoryNode, SessionParameters, needed_credential


class MongoChatParameters(SessionParameters):
    collection: str = Field("n8n_chat_histories", alias="collectionName", min_length=1)
    database: str = Field("", alias="databaseName")


class MongoChatMemoryNode(SessionMemoryNode[MongoChatParameters]):
    type = "@n8n/n8n-nodes-langchain.memoryMongoDbChat"
    versions = (1, 1.1)
    parameters_class = MongoChatParameters
    scoped_since = 1.1

    async def supply(self, ctx: Context[MongoChatParameters], item_index: int) -> Memory:
        parameters = ctx.parameters(item_index)
        fields = needed_credential(ctx, "mongoDb")
        return MongoMemory(
            ctx.services.pools.mongo(fields, parameters.database, parameters.collection),
            self.session(ctx, item_index),
            window=self.window(ctx, item_index),
            before_write=ctx.before_effect,
        )
