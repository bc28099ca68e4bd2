"""Chat history: the thread as the chat saw it, also what was said before the workflow had a memory or an agent."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from convoq.contract.context import RunContext
from convoq.contract.items import Item
from convoq.contract.node import MainNode
from convoq.contract.parameters import Parameters
from convoq.memory.parts import MemoryParts
from convoq.memory.thread import THREAD_MAX, Exchange


class HistoryOptions(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)

    limit: int = Field(100, ge=1, le=2 * THREAD_MAX)
    group_messages: bool = Field(True, alias="groupMessages")


class HistoryParameters(Parameters):
    options: HistoryOptions = Field(HistoryOptions())


class ChatHistoryNode(MainNode[HistoryParameters]):
    """Adds `messages`, a list of `{"role", "content", "at"}` (seconds since 1970), and `messagesCount` to each item;
    with `groupMessages` off each message is an item of its own instead. The message that is being answered is not
    among them. `limit` counts messages, the newest are told."""

    type = "convoq.chatHistory"
    aliases = ("chat_history",)
    versions = (1, 1)
    parameters_class = HistoryParameters
    tells_thread = True

    async def run(self, ctx: RunContext[HistoryParameters]) -> list[list[Item]]:
        options = (await ctx.parameters()).options
        execution = ctx.execution
        thread: Sequence[Exchange] = ()
        if execution.session_id:
            exchanges = (options.limit + 1) // 2
            thread = await ctx.services.part(MemoryParts).read_thread(
                execution.workflow_id, execution.session_id, exchanges
            )
        messages = [message for exchange in thread for message in _messages(exchange)][-options.limit :]
        if not options.group_messages:
            return [[Item(message) for message in messages]]
        told = {"messages": messages, "messagesCount": len(messages)}
        return [[Item({**item.json, **told}, item.binary, index) for index, item in enumerate(ctx.items)]]


def _messages(exchange: Exchange) -> Iterator[dict[str, Any]]:
    yield {"role": "user", "content": exchange.user, "at": exchange.at}
    yield {"role": "assistant", "content": exchange.answer, "at": exchange.answered}
