"""An agent in a real run of a workflow, with a model and tools that do what the test says."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from convoq.contract.connections import ConnectionType
from convoq.contract.context import Context
from convoq.contract.execution import ExecutionInfo
from convoq.contract.items import Item
from convoq.contract.memory import Memory, Turn
from convoq.contract.model import (
    CallDelta,
    Delta,
    Finish,
    Message,
    ModelSettings,
    ReasoningDelta,
    SystemMessage,
    TextDelta,
    ToolCall,
    ToolSpec,
)
from convoq.contract.node import SubNode
from convoq.contract.parameters import Parameters
from convoq.contract.run_data import NodeRun
from convoq.contract.services import Services
from convoq.contract.tool import Tool
from convoq.engine.hooks import Hooks, StreamChunk
from convoq.engine.outcome import Outcome
from convoq.engine.reading import parse_workflow
from convoq.engine.run import WorkflowRun
from convoq.errors import ToolFailed
from convoq.memory.local import LocalMemories
from convoq.nodes.registry import REGISTRY
from convoq.settings import Settings

Reply = Sequence[str | ToolCall | ReasoningDelta | Finish | Exception]
SCHEMA = {"type": "object", "properties": {"input": {"type": "string"}}}


def call(id: str, name: str, arguments: str) -> ToolCall:
    return ToolCall(id, name, arguments)


@dataclass
class ScriptedModel:
    """Gives the replies in turn, each a row of texts, calls, thoughts and failures, with an end of its own or this."""

    replies: list[Reply]
    name: str = "scripted"
    settings: ModelSettings = ModelSettings(temperature=0.5)  # noqa: RUF009
    asked: list[list[Message]] = field(default_factory=list)
    offered: list[list[ToolSpec]] = field(default_factory=list)
    knobs: list[ModelSettings] = field(default_factory=list)

    async def stream(
        self, messages: Sequence[Message], tools: Sequence[ToolSpec], settings: ModelSettings
    ) -> AsyncGenerator[Delta, None]:
        self.asked.append(list(messages))
        self.offered.append(list(tools))
        self.knobs.append(settings)
        for piece in self.replies[min(len(self.asked), len(self.replies)) - 1]:
            if isinstance(piece, Exception):
                raise piece
            if isinstance(piece, str):
                yield TextDelta(piece)
            else:
                yield CallDelta(piece) if isinstance(piece, ToolCall) else piece
            if isinstance(piece, Finish):
                return
        yield Finish("stop", 3, 4)


@dataclass
class ScriptedTool:
    pure = True

    """Answers `result`, or raises it."""

    spec: ToolSpec
    result: str | Exception
    called: list[Mapping[str, Any]] = field(default_factory=list)

    async def call(self, arguments: Mapping[str, Any]) -> str:
        self.called.append(arguments)
        if isinstance(self.result, Exception):
            raise self.result
        return self.result


@dataclass
class Bench:
    """What was made while an agent ran: chunks, and what had been remembered when each was sent."""

    chunks: list[StreamChunk] = field(default_factory=list)
    remembered: list[int] = field(default_factory=list)
    runs: list[NodeRun] = field(default_factory=list)
    outcome: Outcome = field(default_factory=lambda: Outcome("error"))
    thoughts: list[str] = field(default_factory=list)

    @property
    def output(self) -> dict[str, Any]:
        assert self.outcome.error is None, self.outcome.error
        return dict(self.outcome.items[0])

    @property
    def lines(self) -> list[str]:
        return [
            f"{type(chunk).__name__.lower()}{' ' + chunk.content if hasattr(chunk, 'content') else ''}"
            for chunk in self.chunks
        ]

    def runs_of(self, node: str) -> list[NodeRun]:
        return [run for run in self.runs if run.node == node]


AGENT = "@n8n/n8n-nodes-langchain.agent"
TRIGGER = "@n8n/n8n-nodes-langchain.chatTrigger"
MEMORY = "@n8n/n8n-nodes-langchain.memoryBufferWindow"
CALCULATOR = "@n8n/n8n-nodes-langchain.toolCalculator"


def node(name: str, type: str, version: float = 1, /, **more: Any) -> dict[str, Any]:
    return {"id": f"id-{name}", "name": name, "type": type, "typeVersion": version, "parameters": {}, **more}


SYSTEM = SystemMessage("You are a helpful assistant")
SIMPLE_MEMORY = node("Memory", MEMORY, 1.3)


def turns(memories: LocalMemories) -> list[Turn]:
    """What the Simple Memory above holds of session `s`."""
    return memories.read(("wf", "s", "Memory"))


def run_agent(models: Mapping[str, Any], **given: Any) -> Bench:
    """`agent_run`, in an event loop of its own."""
    return asyncio.run(agent_run(models, **given))


async def agent_run(
    models: Mapping[str, Any],
    *,
    chat: Mapping[str, Any] | Sequence[Mapping[str, Any]] = {"chatInput": "hi", "sessionId": "s"},
    tools: Mapping[str, Any] | list[dict[str, Any]] = {},  # noqa: B006
    memory: dict[str, Any] | None = None,
    memories: Any = None,
    streaming: bool = False,
    reasoning: bool = False,
    settings: Settings | None = None,
    agent_node: Mapping[str, Any] = {},
    tool_nodes: Mapping[str, Any] = {},
    execution: str = "x1",
    session: str = "s",
    **parameters: Any,
) -> Bench:
    """Run trigger -> agent on the items of `chat`. `models` and `tools` are by node name; `agent_node` and `tool_nodes`
    are more fields of the agent's and the tools' nodes, `parameters` the agent's parameters."""
    supplied: dict[str, Any] = dict(models)
    nodes = [
        node("Chat", TRIGGER, 1.1, webhookId="hook"),
        node("Agent", AGENT, 3.1, parameters=parameters, **agent_node),
    ]
    connections: dict[str, Any] = {"Chat": {"main": [[{"node": "Agent", "type": "main", "index": 0}]]}}

    def connect(name: str, kind: ConnectionType, index: int = 0) -> None:
        connections[name] = {str(kind): [[{"node": "Agent", "type": str(kind), "index": index}]]}

    for index, name in enumerate(models):
        nodes.append(node(name, "test.model"))
        connect(name, ConnectionType.LANGUAGE_MODEL, index)
    if isinstance(tools, Mapping):
        supplied.update(tools)
        tools = [node(name, "test.tool", **tool_nodes) for name in tools]
    for number, tool in enumerate(tools):
        nodes.append({**tool, "position": [0, number]})
        connect(tool["name"], ConnectionType.TOOL)
    if memory is not None:
        nodes.append(memory)
        connect(memory["name"], ConnectionType.MEMORY)

    registry = {**REGISTRY, "test.model": Supplies(supplied), "test.tool": SuppliesTool(supplied)}
    definition = {"id": "wf", "name": "W", "nodes": nodes, "connections": connections, "active": True}
    workflow = parse_workflow(definition, source="test", registry=registry)
    memories = memories or LocalMemories()
    bench = Bench()

    info = ExecutionInfo(execution, 1, "wf", "W", session, "production", 100.0)

    async def send(chunk: StreamChunk) -> None:
        bench.chunks.append(chunk)
        if isinstance(memories, LocalMemories):
            bench.remembered.append(len(await memories(info, "s", "Memory", window=99, ttl_s=1).load()))

    services = Services(settings or Settings(), memories, no_http, clock=lambda: 100.0)
    hooks = Hooks(send if streaming else None, reasoning=reasoning)
    run = WorkflowRun(workflow, info, services, hooks)
    items = [chat] if isinstance(chat, Mapping) else chat
    bench.outcome = await run.start("Chat", [Item(dict(json), paired_item=0) for json in items])
    bench.runs, bench.thoughts = run.run_data, hooks.thoughts
    return bench


def no_http() -> Any:
    raise AssertionError("nothing here may use the network")


class Supplies(SubNode[Parameters]):
    type = "test.model"
    versions = (1, 1)
    parameters_class = Parameters
    supplies = ConnectionType.LANGUAGE_MODEL

    def __init__(self, supplied: Mapping[str, Any]) -> None:
        self._supplied = supplied

    async def supply(self, ctx: Context[Parameters], item_index: int) -> Any:
        return self._supplied[ctx.node.name]


class SuppliesTool(Supplies):
    type = "test.tool"
    supplies = ConnectionType.TOOL


def tool(result: str | Exception = "done", name: str = "Search") -> Tool:
    return ScriptedTool(ToolSpec(name, "finds", SCHEMA), result)


def failing_tool(reason: str) -> Tool:
    return tool(ToolFailed(reason))


class BrokenMemory:
    """A memory that fails in one of its methods."""

    window = 5

    def __init__(self, memory: Memory, error: Exception, at: str) -> None:
        self._memory, self._error, self._at = memory, error, at

    async def load(self) -> Any:
        if self._at == "load":
            raise self._error
        return await self._memory.load()

    async def append(self, turn: Any) -> None:
        if self._at == "append":
            raise self._error
        await self._memory.append(turn)
