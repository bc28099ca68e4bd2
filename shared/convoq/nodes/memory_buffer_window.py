"""Simple Memory: the last turns of a session, in convoq's own store."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from convoq.errors import NodeFailed
from convoq.memory.base import Memory
from convoq.nodes.base import ConnectionType, Context, Parameters, SubNode

MAX_WINDOW = 10_000
MAX_KEY_CHARS = 1000


class BufferWindowParameters(Parameters):
    """`session_key` counts with `customKey`; before 1.2 there was no choice, and one that is given counts."""

    session_id_type: Literal["fromInput", "customKey"] | None = Field(None, alias="sessionIdType")
    session_key: Any = Field(None, alias="sessionKey")
    window: int = Field(5, alias="contextWindowLength")


class SimpleMemoryNode(SubNode[BufferWindowParameters]):
    type = "@n8n/n8n-nodes-langchain.memoryBufferWindow"
    versions = (1, 1.4)
    parameters_class = BufferWindowParameters
    supplies = ConnectionType.MEMORY

    async def supply(self, ctx: Context[BufferWindowParameters], item_index: int) -> Memory:
        parameters = ctx.parameters(item_index)
        if not 1 <= parameters.window <= MAX_WINDOW:
            raise NodeFailed(f"parameter 'contextWindowLength' is {parameters.window}: must be 1 to {MAX_WINDOW} turns")
        return ctx.services.open_memory(
            ctx.execution,
            session_of(ctx, item_index),
            ctx.node.name,
            window=parameters.window,
            ttl_s=ctx.services.settings.memory_ttl_s,
        )


def session_of(ctx: Context[BufferWindowParameters], item_index: int) -> str:
    """The session that a memory node's parameters name for that item. Raises `NodeFailed`."""
    parameters = ctx.parameters(item_index)
    given = "session_key" in parameters.model_fields_set
    if parameters.session_id_type == "customKey" or (ctx.node.type_version < 1.2 and given):
        key = _key(parameters.session_key, "parameter 'sessionKey'")
        if not key:
            raise NodeFailed("parameter 'sessionKey' is empty")
        return key
    key = _key(ctx.items[item_index].json.get("sessionId"), "the input's 'sessionId'") or ctx.execution.session_id
    if not key:
        raise NodeFailed(
            "No session ID found: the input has no 'sessionId', and no chat message started this execution"
        )
    return key


def _key(value: object, what: str) -> str:
    """Numbers and booleans as JavaScript writes them, as in n8n."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if not isinstance(value, str | int | float):
        raise NodeFailed(f"{what} must be a text or a number, not {type(value).__name__}")
    key = str(value)
    if len(key) > MAX_KEY_CHARS:
        raise NodeFailed(f"{what} is longer than {MAX_KEY_CHARS} characters")
    return key
