"""Chats of several executions over one memory node, in process or in a real Redis."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from convoq import keys
from convoq.contract.execution import ExecutionInfo
from convoq.contract.items import Item
from convoq.contract.memory import Turn
from convoq.contract.model import Message, ToolCall
from convoq.contract.run_data import NodeRun
from convoq.contract.services import OpenMemory, Services
from convoq.engine.outcome import Outcome
from convoq.engine.reading import parse_workflow
from convoq.engine.run import WorkflowRun
from convoq.engine.workflow import Workflow
from convoq.ids import new_execution_id
from convoq.memory.local import LocalMemories
from convoq.memory.parts import MemoryParts
from convoq.memory.redis_list import RedisMemories
from convoq.memory.summary import Folds, LocalFolds, RedisFolds
from convoq.memory.thread import Exchange, ReadThread, no_thread
from convoq.nodes.registry import REGISTRY
from convoq.redis import Pipe, async_client
from convoq.settings import Settings
from tests.agent.harness import AGENT, TRIGGER, ScriptedModel, Supplies, SuppliesTool, no_http, node, tool

SETTINGS = Settings(memory_ttl_s=3600, job_timeout_s=60)
NOW = 1000.0


def link(source: str, target: str, kind: str = "main", output: int = 0) -> tuple[str, str, str, int]:
    return source, target, kind, output


def connections(links: Sequence[tuple[str, str, str, int]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for source, target, kind, output in links:
        outputs = found.setdefault(source, {}).setdefault(kind, [])
        while len(outputs) <= output:
            outputs.append([])
        outputs[output].append({"node": target, "type": kind, "index": 0})
    return found


@dataclass
class Said:
    """One execution: what came of it, what each model was sent."""

    outcome: Outcome
    runs: list[NodeRun]

    def of(self, node: str, connection: str = "main") -> list[NodeRun]:
        return [run for run in self.runs if run.node == node and run.connection == connection]

    def items(self, node: str, output: int = 0) -> list[dict[str, Any]]:
        """What a main run of that node gave on an output; it must have run once."""
        (run,) = self.of(node)
        return run.outputs[output] if output < len(run.outputs) else []


@dataclass
class Lab:
    """Chat -> Agent with a scripted model, and whatever `nodes` and `links` add. `mem` is the node under test."""

    nodes: Sequence[Mapping[str, Any]]
    links: Sequence[tuple[str, str, str, int]] = (("Mem", "Agent", "ai_memory", 0),)
    models: Mapping[str, ScriptedModel] = field(default_factory=dict)
    agent: Mapping[str, Any] = field(default_factory=dict)
    memories: OpenMemory = field(default_factory=LocalMemories)
    folds: Folds | None = None
    threads: ReadThread = no_thread
    model: ScriptedModel = field(default_factory=lambda: ScriptedModel([["ok"]]))
    workflow: Workflow = field(init=False)
    id: str = field(default_factory=lambda: f"wf-{new_execution_id()}")

    def __post_init__(self) -> None:
        tools = {"Search": tool("found it")}
        registry = {
            **REGISTRY,
            "test.model": Supplies({"Model": self.model, **self.models}),
            "test.tool": SuppliesTool(tools),
        }
        nodes = [
            node("Chat", TRIGGER, 1.1, webhookId="hook"),
            node("Agent", AGENT, 3.1, parameters=dict(self.agent)),
            node("Model", "test.model"),
            node("Search", "test.tool"),
            *(node(name, "test.model") for name in self.models),
            *map(dict, self.nodes),
        ]
        links = [
            link("Chat", "Agent"),
            link("Model", "Agent", "ai_languageModel"),
            link("Search", "Agent", "ai_tool"),
            *self.links,
        ]
        data = {
            "id": self.id,
            "name": "W",
            "nodes": nodes,
            "connections": connections(links),
            "active": True,
            "settings": {"executionOrder": "v1"},
        }
        self.workflow = parse_workflow(data, source="test", registry=registry, strict=True)

    async def say(
        self, text: str, *, session: str = "s", execution: str | None = None, more: Mapping[str, Any] = {}
    ) -> Said:
        info = ExecutionInfo(execution or new_execution_id(), 1, self.id, "W", session, "production", NOW, token="t1")
        services = Services(
            SETTINGS,
            self.memories,
            no_http,
            parts=[MemoryParts(self.threads, self.folds)],
            clock=lambda: NOW,
        )
        run = WorkflowRun(self.workflow, info, services)
        outcome = await run.start("Chat", [Item({"chatInput": text, "sessionId": session, **more})])
        return Said(outcome, run.run_data)

    def sent(self, call: int = -1) -> list[tuple[str, str]]:
        """What the agent's model was sent in that call: (role, content), without the agent's own system message."""
        return told(self.model.asked[call])[1:]

    async def stored(self, name: str = "Mem", session: str = "s") -> list[Turn]:
        info = ExecutionInfo("", 0, self.id, "W", session, "production", NOW)
        return list(await self.memories(info, session, name, window=10_000, ttl_s=1).load())


def told(messages: Sequence[Message]) -> list[tuple[str, str]]:
    return [(type(message).__name__.removesuffix("Message").lower(), message.content) for message in messages]


def answers(count: int, *, first: int = 1) -> ScriptedModel:
    return ScriptedModel([[f"answer {number}"] for number in range(first, first + count)])


def search(id: str, text: str = "") -> list[str | ToolCall | Exception]:
    return [*([text] if text else []), ToolCall(id, "Search", '{"input": "x"}')]


def local(make: Callable[[LocalMemories], Lab], test: Callable[[Lab], Awaitable[None]]) -> None:
    memories = LocalMemories(lambda: NOW)
    asyncio.run(_finished(test(make(memories))))


async def _finished(test: Awaitable[None]) -> None:
    await test


@asynccontextmanager
async def redis_parts(url: str) -> AsyncIterator[tuple[Pipe, RedisMemories, RedisFolds]]:
    async with async_client(url) as client, Pipe(client) as pipe:
        yield pipe, RedisMemories(pipe), RedisFolds(pipe)


async def running(pipe: Pipe, execution_id: str) -> str:
    """An execution that is running, so that its writes count."""
    await pipe.command("HSET", keys.execution(execution_id), "status", "running", "token", "t1")
    return execution_id


def folds(memories: LocalMemories) -> LocalFolds:
    return LocalFolds(memories)


def exchange(number: int) -> Exchange:
    return Exchange(f"x{number}", f"question {number}", f"answer {number}", 100.0 + number, 100.5 + number)
