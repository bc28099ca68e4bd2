"""Chat Memory Manager: look into a memory, put messages into it, take some out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Literal

import msgspec
from pydantic import BaseModel, ConfigDict, Field

from convoq.contract.connections import MEMORY, ConnectionType
from convoq.contract.context import RunContext
from convoq.contract.items import Item
from convoq.contract.memory import Memory, Turn
from convoq.contract.node import MainNode
from convoq.contract.parameters import Parameters
from convoq.errors import NodeFailed
from convoq.memory.messages import JsonMessage, messages_of, turns_from

TYPES = {"user": "human", "assistant": "ai", "tool": "tool", "system": "system"}
CLASSES = {"user": "HumanMessage", "assistant": "AIMessage", "tool": "ToolMessage", "system": "SystemMessage"}


class NewMessage(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True, populate_by_name=True)

    type: Literal["ai", "system", "user"] = "system"
    message: str = ""
    hide_from_ui: bool = Field(False, alias="hideFromUI")


class NewMessages(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True, populate_by_name=True)

    values: tuple[NewMessage, ...] = Field((), alias="messageValues")


class ManagerOptions(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)

    group_messages: bool | None = Field(None, alias="groupMessages")


class ManagerParameters(Parameters):
    mode: Literal["load", "insert", "delete"] = "load"
    simplify: bool = Field(True, alias="simplifyOutput")
    insert_mode: Literal["insert", "override"] = Field("insert", alias="insertMode")
    messages: NewMessages = NewMessages()
    delete_mode: Literal["lastN", "all"] = Field("lastN", alias="deleteMode")
    last: int = Field(2, alias="lastMessagesCount", ge=0)
    options: ManagerOptions = ManagerOptions(groupMessages=None)


class MemoryManagerNode(MainNode[ManagerParameters]):
    """n8n's modes, each a single write where n8n clears the history and writes it again message by message.

    As in n8n, `lastN` deletes nothing where fewer are stored; where it cuts through a turn, what is left of that turn
    stays as far as a model can be sent it: no call without its result.
    """

    type = "@n8n/n8n-nodes-langchain.memoryManager"
    versions = (1, 1.1)
    parameters_class = ManagerParameters
    accepts = {ConnectionType.MEMORY: True}  # noqa: RUF012

    async def run(self, ctx: RunContext[ManagerParameters]) -> list[list[Item]]:
        found: list[Item] = []
        for index in range(len(ctx.items)):
            supplied = await ctx.supplied(MEMORY, index)
            if not supplied:
                raise NodeFailed("no memory is connected")
            parameters = await ctx.parameters(index)
            outputs = await _act(ctx, parameters, supplied[0].value, index)
            found += (Item(json, paired_item=index) for json in outputs)
        return [found]


async def _act(
    ctx: RunContext[ManagerParameters], parameters: ManagerParameters, memory: Memory, index: int
) -> list[JsonMessage]:
    legacy = ctx.node.type_version < 1.1
    if parameters.mode == "load":
        messages = [message for turn in await memory.load() for message in messages_of(turn)]
        shown = _simplified(messages) if parameters.simplify else [_serialised(message) for message in messages]
        grouped = parameters.options.group_messages
        if grouped or (grouped is None and not legacy):
            return [{"messages": shown, "messagesCount": len(shown)}]
        return shown
    if parameters.mode == "insert":
        await _insert(ctx, parameters, memory, index)
    elif parameters.delete_mode == "all":
        await memory.clear()
    else:
        await ctx.before_effect()  # done twice, it would take twice as many
        stored = await memory.load()
        if sum(len(messages_of(turn)) for turn in stored) >= parameters.last:
            await memory.replace(_without_last(stored, parameters.last))
    if legacy:
        return [_serialised(message) for turn in await memory.load() for message in messages_of(turn)]
    return [{"success": True}]


async def _insert(
    ctx: RunContext[ManagerParameters], parameters: ManagerParameters, memory: Memory, index: int
) -> None:
    given = (
        {"role": value.type, "content": value.message, "hidden": value.hide_from_ui}
        for value in parameters.messages.values
    )
    name = f"{ctx.execution.id}:{ctx.node.name}:{ctx.run_index}:{index}"
    turns = turns_from(given, name, ctx.services.clock())
    if parameters.insert_mode == "override":
        await memory.replace(turns)
        return
    for turn in turns:
        await memory.append(turn)


def _without_last(turns: Iterable[Turn], count: int) -> list[Turn]:
    kept = list(turns)
    while kept and count:
        turn = kept.pop()
        messages = messages_of(turn)
        if len(messages) > count:
            left = turns_from(messages[:-count], turn.id, turn.ended)
            kept += (msgspec.structs.replace(part, id=turn.id) for part in left[:1])
            break
        count -= len(messages)
    return kept


def _simplified(messages: Sequence[JsonMessage]) -> list[dict[str, Any]]:
    """n8n's groups: `{"human", "ai", …}`, a new one as soon as a type comes again."""
    groups: list[dict[str, Any]] = []
    for message in messages:
        kind = TYPES[message["role"]]
        if not groups or kind in groups[-1]:
            groups.append({})
        groups[-1][kind] = message["content"]
    return groups


def _serialised(message: JsonMessage) -> dict[str, Any]:
    """LangChain's form."""
    hidden = {"hideFromUI": True} if message.get("hidden") else {}
    kwargs: dict[str, Any] = {"content": message["content"], "additional_kwargs": hidden, "response_metadata": {}}
    if "tool_calls" in message:
        kwargs["tool_calls"] = [
            {
                "id": call["id"],
                "name": call["name"],
                "args": msgspec.json.decode(call["arguments"]),
                "type": "tool_call",
            }
            for call in message["tool_calls"]
        ]
    if message["role"] == "tool":
        kwargs |= {"tool_call_id": message["tool_call_id"], "name": message["name"]}
    return {
        "lc": 1,
        "type": "constructor",
        "id": ["langchain_core", "messages", CLASSES[message["role"]]],
        "kwargs": kwargs,
    }
