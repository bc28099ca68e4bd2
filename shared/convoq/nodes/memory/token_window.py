"""Token window: the last turns that fit a number of tokens."""

from __future__ import annotations

from functools import partial

from pydantic import Field

from convoq.contract.connections import MODEL, ConnectionType
from convoq.contract.context import Context
from convoq.contract.memory import MAX_WINDOW, Memory
from convoq.contract.node import SubNode
from convoq.memory.tokens import count_turn, how
from convoq.memory.window import FittedMemory
from convoq.nodes.memory.session import SessionParameters, session_of


class TokenWindowParameters(SessionParameters):
    max_tokens: int = Field(2000, alias="maxTokens", ge=1, le=2_000_000)


class TokenWindowMemoryNode(SubNode[TokenWindowParameters]):
    """Tokens are counted as those of the chat model that is connected to it, if one is; what falls out is gone from
    storage as well."""

    type = "convoq.memoryTokenWindow"
    versions = (1, 1)
    parameters_class = TokenWindowParameters
    supplies = ConnectionType.MEMORY
    accepts = {ConnectionType.LANGUAGE_MODEL: False}  # noqa: RUF012

    async def supply(self, ctx: Context[TokenWindowParameters], item_index: int) -> Memory:
        models = await ctx.supplied(MODEL, item_index)
        model = models[0].value.name if models else ""
        session = await session_of(ctx, item_index, 1)

        def open_at(window: int) -> Memory:
            ttl_s = ctx.services.settings.memory_ttl_s
            return ctx.services.open_memory(ctx.execution, session, ctx.node.name, window=window, ttl_s=ttl_s)

        limit = (await ctx.parameters(item_index)).max_tokens
        return FittedMemory(open_at, MAX_WINDOW, limit, partial(count_turn, model=model), how(model))
