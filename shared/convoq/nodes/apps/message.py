"""A message to a model, with tools if they are connected: what the applications' nodes have in common."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from convoq.contract.connections import MODEL, TOOL
from convoq.contract.context import RunContext, Supplied
from convoq.contract.model import AssistantMessage, Message, Model, SystemMessage, UserMessage
from convoq.contract.parameters import Parameters
from convoq.errors import NodeFailed
from convoq.models.asking import Asking
from convoq.models.hearing import Reply
from convoq.nodes.agents.loop import AgentLoop

ROLES: dict[str, type[SystemMessage | AssistantMessage]] = {
    "system": SystemMessage,
    "developer": SystemMessage,
    "assistant": AssistantMessage,
    "model": AssistantMessage,
}
MAX_ROUNDS = 15
"""n8n's default of how often tools may be asked for."""


class ChatMessage(Parameters):
    """Text only: `type` may also be `image` or `file`, which are not sent."""

    role: str = "user"
    type: str = "text"
    content: Any = ""

    def made(self) -> Message:
        content = self.content if isinstance(self.content, str) else json.dumps(self.content, default=str)
        made = ROLES.get(self.role)
        return UserMessage(content) if made is None else made(content)


class ChatMessages(Parameters):
    values: tuple[ChatMessage, ...] = ()


async def ask_model(
    ctx: RunContext[Any], index: int, model: Model, given: Sequence[ChatMessage], rounds: int = MAX_ROUNDS
) -> Reply:
    """Raises `NodeFailed` where there is no message, `TooManyIterations`, and what models and tools raise."""
    for one in given:
        if one.type != "text":
            ctx.note(f"{ctx.node.name}: a message of type {one.type!r} is not sent")
    messages = [one.made() for one in given if one.type == "text" and one.content not in ("", None)]
    if not messages:
        raise NodeFailed("parameter 'messages': there is no message with a text")
    node = ctx.node.model_copy(update={"name": f"{ctx.node.name} (model)"})  # in the run data a run of its own
    asking = Asking(ctx, [Supplied(node, MODEL, model)])
    tools = await ctx.supplied(TOOL, index)
    if not tools:
        return await asking.ask(messages)
    loop = AgentLoop(ctx=ctx, item_index=index, asking=asking, tools=tools, memory=None, max_iterations=rounds)
    return await loop.answer(messages)


def content_of(reply: Reply, *, as_json: bool) -> Any:
    """Raises `NodeFailed` where JSON was wanted and is not there."""
    if not as_json:
        return reply.text
    try:
        return json.loads(reply.text)
    except ValueError:
        raise NodeFailed(f"the model's answer is not JSON: {reply.text[:300]!r}") from None
