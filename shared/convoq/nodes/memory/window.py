"""Last messages: a window over the messages of this workflow's own runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from pydantic import ConfigDict, Field

from convoq.contract.connections import ConnectionType
from convoq.contract.context import Context, RunContext
from convoq.contract.items import Item
from convoq.contract.memory import Memory, Turn
from convoq.contract.node import PortedSubNode
from convoq.contract.parameters import Parameters
from convoq.errors import MemoryFailed, NodeFailed
from convoq.memory.messages import flat, messages_of, turns_from
from convoq.memory.window import FittedMemory, NoMemory, messages_in


class WindowParameters(Parameters):
    model_config = ConfigDict(alias_generator=None)

    window_size: int = Field(10, ge=1, le=200)
    scope: Literal["thread", "session", "call"] = "thread"
    expose_messages_output: bool = False
    overwrite_from_input: bool = False
    expose_error_output: bool = False


class WindowMemoryNode(PortedSubNode[WindowParameters]):
    """Main outputs: 0 `messages_out`, the stored messages as items; 1 success, the items that came in, after they
    replaced the history; 2 a failed write, `{"error"}`. Without an input 0 and 2 fire once the agent has run.

    A window smaller than the newest turn keeps that turn's last tool rounds; of 1 message nothing is kept, for a
    question without its answer cannot be sent to a model.
    """

    type = "convoq.windowMemory"
    aliases = ("window_memory",)
    versions = (1, 1)
    parameters_class = WindowParameters
    supplies = ConnectionType.MEMORY
    outputs = 2

    async def supply(self, ctx: Context[WindowParameters], item_index: int) -> Memory:
        parameters = await ctx.parameters(item_index)
        memory = _open(ctx, parameters)
        return _Lenient(memory) if parameters.expose_error_output else memory

    async def run(self, ctx: RunContext[WindowParameters]) -> list[list[Item]]:
        parameters = await ctx.parameters()
        if not parameters.overwrite_from_input:
            raise NodeFailed("items arrive, but parameter 'overwrite_from_input' is off")
        turns = turns_from(
            flat([item.json for item in ctx.items]),
            f"{ctx.execution.id}:{ctx.node.name}:{ctx.run_index}",
            ctx.services.clock(),
        )
        memory = _open(ctx, parameters)
        try:
            await memory.replace(turns)
        except MemoryFailed as error:
            if not parameters.expose_error_output:
                raise
            return [await _messages(ctx, memory), [], [_failed(error)]]
        passed = [Item(item.json, item.binary, index) for index, item in enumerate(ctx.items)]
        return [await _messages(ctx, memory), passed]

    async def after(self, ctx: RunContext[WindowParameters], supplied: Sequence[Any]) -> list[list[Item]]:
        failures = [
            memory.failure for memory in supplied if isinstance(memory, _Lenient) and memory.failure is not None
        ]
        return [await _messages(ctx, supplied[-1]), [], [_failed(error) for error in failures]]


class _Lenient:
    """A memory whose failed writes are told on the node's error output: the answer that was given stands."""

    def __init__(self, memory: Memory) -> None:
        self.window = memory.window
        self.failure: MemoryFailed | None = None
        self.load, self.replace, self.clear = memory.load, memory.replace, memory.clear
        self._memory = memory

    async def append(self, turn: Turn) -> None:
        try:
            await self._memory.append(turn)
        except MemoryFailed as error:
            self.failure = error


def _open(ctx: Context[WindowParameters], parameters: WindowParameters) -> Memory:
    """Without a chat thread (started by hand, say) the history is the execution's."""
    if parameters.scope == "call":
        return NoMemory()
    execution, settings = ctx.execution, ctx.services.settings
    threaded = parameters.scope == "thread" and bool(execution.session_id)
    session = execution.session_id if threaded else execution.id
    ttl_s = settings.memory_ttl_s if threaded else settings.job_timeout_s

    def open_at(window: int) -> Memory:
        return ctx.services.open_memory(execution, session, ctx.node.name, window=window, ttl_s=ttl_s)

    return FittedMemory(open_at, parameters.window_size, parameters.window_size, messages_in, "messages")


async def _messages(ctx: Context[WindowParameters], memory: Memory) -> list[Item]:
    if not (await ctx.parameters()).expose_messages_output:
        return []
    return [Item(message) for turn in await memory.load() for message in messages_of(turn)]


def _failed(error: MemoryFailed) -> Item:
    return Item({"error": error.message})
