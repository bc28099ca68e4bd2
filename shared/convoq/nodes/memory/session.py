"""What the memory nodes have in common: which session they remember, and where."""

from __future__ import annotations

import re
from typing import Any, ClassVar, Literal, TypeVar

from pydantic import AliasChoices, Field

from convoq.contract.connections import ConnectionType
from convoq.contract.context import Context
from convoq.contract.memory import MAX_WINDOW
from convoq.contract.node import SubNode
from convoq.contract.parameters import Parameters
from convoq.errors import NodeFailed
from convoq.memory.claims import Claims
from convoq.memory.parts import MemoryParts

MAX_KEY_CHARS = 1000


class SessionParameters(Parameters):
    """`session_key` counts with `customKey`; before there was that choice, one that is given counts."""

    session_id_type: Literal["fromInput", "customKey"] | None = Field(None, alias="sessionIdType")
    session_key: Any = Field(None, validation_alias=AliasChoices("sessionKey", "sessionId"))
    window: int = Field(5, alias="contextWindowLength")


P = TypeVar("P", bound=SessionParameters)


class SessionMemoryNode(SubNode[P]):
    """`choice_since`, `window_since` and `scoped_since` are the versions since which there is a choice of the session's
    key, a window (before it: the whole history), and n8n adds the node's name to a key that comes from the input."""

    supplies = ConnectionType.MEMORY
    choice_since: ClassVar[float] = 1
    window_since: ClassVar[float] = 1
    scoped_since: ClassVar[float] = float("inf")

    async def window(self, ctx: Context[P], item_index: int) -> int:
        if ctx.node.type_version < self.window_since:
            return MAX_WINDOW
        window = (await ctx.parameters(item_index)).window
        if not 1 <= window <= MAX_WINDOW:
            raise NodeFailed(f"parameter 'contextWindowLength' is {window}: must be 1 to {MAX_WINDOW} turns")
        return window

    async def session(self, ctx: Context[P], item_index: int) -> str:
        """The session as n8n names it in a store that other nodes may share. Raises `NodeFailed`."""
        key, from_input = await _session(ctx, item_index, self.choice_since)
        if from_input and ctx.node.type_version >= self.scoped_since:
            return f"{key}__{re.sub('[^A-Za-z0-9_-]', '_', ctx.node.name)}"
        return key


async def session_of(ctx: Context[Any], item_index: int, choice_since: float = 1.2) -> str:
    """The session that a memory node's `SessionParameters` name for that item. Raises `NodeFailed`."""
    return (await _session(ctx, item_index, choice_since))[0]


async def _session(ctx: Context[Any], item_index: int, choice_since: float) -> tuple[str, bool]:
    """The key, and whether it is that of the input."""
    parameters: SessionParameters = await ctx.parameters(item_index)
    given = "session_key" in parameters.model_fields_set
    if parameters.session_id_type == "customKey" or (ctx.node.type_version < choice_since and given):
        key = _key(parameters.session_key, "parameter 'sessionKey'")
        if not key:
            raise NodeFailed("parameter 'sessionKey' is empty")
        return key, False
    key = _key(ctx.items[item_index].json.get("sessionId"), "the input's 'sessionId'") or ctx.execution.session_id
    if not key:
        raise NodeFailed(
            "No session ID found: the input has no 'sessionId', and no chat message started this execution"
        )
    return key, True


def claims_of(ctx: Context[Any]) -> Claims | None:
    """What guards writes to a server that is not convoq's own. Without an execution (reading, deleting) nothing."""
    if not ctx.execution.id:
        return None
    return Claims(ctx.execution, ctx.before_effect, ctx.services.part(MemoryParts).pools.own)


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
