"""Redis Chat Memory: a session in a Redis of one's own, in n8n's format or in convoq's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from convoq import keys
from convoq.contract.context import Context
from convoq.contract.memory import Memory
from convoq.errors import NodeFailed
from convoq.memory.n8n_list import N8nListMemory
from convoq.memory.parts import MemoryParts
from convoq.memory.redis_list import RedisListMemory, fence_of
from convoq.nodes.memory.session import SessionMemoryNode, SessionParameters, claims_of, session_of

if TYPE_CHECKING:
    from convoq.contract.definition import Node


class RedisChatParameters(SessionParameters):
    """`session_ttl` is in seconds, 0 for ever. `format` is convoq's own parameter: `n8n` is what n8n reads and writes,
    `convoq` is trimmed to the window."""

    session_ttl: int = Field(0, alias="sessionTTL", ge=0)
    format: Literal["n8n", "convoq"] = "n8n"


class RedisChatMemoryNode(SessionMemoryNode[RedisChatParameters]):
    """With a credential, n8n's keys on that server. Without a known one, convoq's own Redis, where n8n's bare keys have
    no place and nothing is kept for ever: there it is a Simple Memory with a time-to-live of its own."""

    type = "@n8n/n8n-nodes-langchain.memoryRedisChat"
    credentials = ("redis",)
    versions = (1, 1.6)
    parameters_class = RedisChatParameters
    choice_since = 1.2
    window_since = 1.3
    scoped_since = 1.6

    def stand_in(self, node: Node) -> str | None:
        reference = node.credentials.get("redis")
        name = reference.get("name") or reference.get("id") if isinstance(reference, dict) else None
        why = f"credential {name!r} is not known" if name else "it has no Redis credential"
        return (
            f"{why}: unless CONVOQ_MEMORY_STAND_IN=false, the history is kept in convoq's own Redis, "
            "for CONVOQ_MEMORY_TTL_S after each turn"
        )

    async def supply(self, ctx: Context[RedisChatParameters], item_index: int) -> Memory:
        parameters, services = (await ctx.parameters(item_index)), ctx.services
        window = await self.window(ctx, item_index)
        if services.settings.memory_stand_in:
            fields = await ctx.credential("redis")
        else:
            fields = await ctx.needed_credential("redis")
        if fields is None:
            ctx.note(f"{ctx.node.name}: {self.stand_in(ctx.node)}")
            ttl_s = parameters.session_ttl or services.settings.memory_ttl_s
            session = await session_of(ctx, item_index)
            return services.open_memory(ctx.execution, session, ctx.node.name, window=window, ttl_s=ttl_s)
        key = await self.session(ctx, item_index)
        if keys.is_reserved(key):
            raise NodeFailed(f"session key {key[:100]!r} is like the keys of convoq itself")
        server = services.part(MemoryParts).pools.redis(fields)
        options: dict[str, Any] = {"window": window, "ttl_s": parameters.session_ttl}
        if server is services.part(MemoryParts).pools.own:
            options["fence"] = fence_of(ctx.execution)
        else:
            options["claims"] = claims_of(ctx)
        made = N8nListMemory if parameters.format == "n8n" else RedisListMemory
        return made(server, key, **options)
