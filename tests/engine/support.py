"""Tiny nodes and a short way to write workflows of them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, cast

from convoq.contract.connections import ConnectionType, Kind
from convoq.contract.context import Context, RunContext
from convoq.contract.execution import ExecutionInfo
from convoq.contract.items import Item
from convoq.contract.node import MainNode, SubNode
from convoq.contract.parameters import Parameters
from convoq.contract.services import OpenMemory, Services
from convoq.engine.hooks import Hooks, StreamChunk
from convoq.engine.outcome import Outcome
from convoq.engine.reading import parse_workflow
from convoq.engine.run import WorkflowRun
from convoq.engine.workflow import Registry, Workflow
from convoq.errors import Fenced, ModelFailed, NodeFailed, Stopped, StreamTooLarge, TimedOut
from convoq.nodes.data.edit_fields import EditFieldsNode
from convoq.nodes.registry import by_type
from convoq.protocol import Begin, End, Error
from convoq.protocol import Item as ItemChunk
from convoq.settings import Settings

INFO = ExecutionInfo("exec-1", 1, "wf-1", "Test", "s-1", "production", 1000.0)


class AnyParameters(Parameters):
    items: list[dict[str, Any]] = []  # noqa: RUF012
    raises: str = ""
    times: int = 1000
    segments: list[list[str]] = []  # noqa: RUF012
    leave_open: bool = False
    value: str = ""


class Start(MainNode[AnyParameters]):
    type, versions, parameters_class, is_trigger = "start", (1, 2), AnyParameters, True

    async def run(self, ctx: RunContext[Any]) -> list[list[Item]]:
        return [list(ctx.items)]


class Pass(MainNode[AnyParameters]):
    type, versions, parameters_class = "pass", (1, 1), AnyParameters

    async def run(self, ctx: RunContext[Any]) -> list[list[Item]]:
        return [[Item(item.json, None, index) for index, item in enumerate(ctx.items)]]


class Give(MainNode[AnyParameters]):
    """Gives the items of its parameter."""

    type, versions, parameters_class = "give", (1, 1), AnyParameters

    async def run(self, ctx: RunContext[Any]) -> list[list[Item]]:
        return [[Item(json) for json in (await ctx.parameters()).items]]


class Choose(MainNode[AnyParameters]):
    """Items with `v` over 1 go to output 0, the others to output 1."""

    type, versions, parameters_class, outputs = "choose", (1, 1), AnyParameters, 2

    async def run(self, ctx: RunContext[Any]) -> list[list[Item]]:
        out: list[list[Item]] = [[], []]
        for index, item in enumerate(ctx.items):
            out[0 if item.json["v"] > 1 else 1].append(Item(item.json, None, index))
        return out


class Merge(MainNode[AnyParameters]):
    type, versions, parameters_class = "merge", (1, 1), AnyParameters

    async def run(self, ctx: RunContext[Any]) -> list[list[Item]]:
        return [[item for items in ctx.inputs for item in items]]


class Count(MainNode[AnyParameters]):
    """Adds one to `n`, and ends at three."""

    type, versions, parameters_class = "count", (1, 1), AnyParameters

    async def run(self, ctx: RunContext[Any]) -> list[list[Item]]:
        n = ctx.items[0].json.get("n", 0) + 1
        return [[] if n > 3 else [Item({"n": n})]]


RAISED: dict[str, BaseException] = {
    "node": NodeFailed("no luck"),
    "value": ValueError("no luck"),
    "stopped": Stopped("stopped"),
    "fenced": Fenced("fenced"),
    "timed out": TimedOut("timed out"),
    "too large": StreamTooLarge("too large"),
    "cancelled": asyncio.CancelledError(),
}


class Fail(MainNode[AnyParameters]):
    """Raises as its parameter says, the first `times` times of an execution."""

    type, versions, parameters_class = "fail", (1, 1), AnyParameters

    def __init__(self) -> None:
        self.tries = 0

    async def run(self, ctx: RunContext[Any]) -> list[list[Item]]:
        self.tries += 1
        if self.tries <= (await ctx.parameters()).times:
            error = RAISED[(await ctx.parameters()).raises]
            raise type(error)(*error.args)
        return [[Item({"tries": self.tries})]]


class Talk(MainNode[AnyParameters]):
    """Streams each segment piece by piece; the last is its output."""

    type, versions, parameters_class = "talk", (1, 1), AnyParameters

    async def run(self, ctx: RunContext[Any]) -> list[list[Item]]:
        parameters = await ctx.parameters()
        for segment in parameters.segments:
            await ctx.send_chunk("begin", 0)
            for piece in segment:
                await ctx.send_chunk("item", 0, piece)
            if not (parameters.leave_open and segment is parameters.segments[-1]):
                await ctx.send_chunk("end", 0)
        if parameters.raises:
            raise NodeFailed("lost the thread")
        return [[Item({"output": "".join(parameters.segments[-1])})]]


class Word(SubNode[AnyParameters]):
    type, versions, parameters_class, supplies = "word", (1, 1), AnyParameters, ConnectionType.TOOL

    async def supply(self, ctx: Context[Any], item_index: int) -> Any:
        if (await ctx.parameters()).raises:
            raise RuntimeError("no word")
        return (await ctx.parameters(item_index)).value


class Brain(SubNode[AnyParameters]):
    type, versions, parameters_class, supplies = "brain", (1, 1), AnyParameters, ConnectionType.LANGUAGE_MODEL

    async def supply(self, ctx: Context[Any], item_index: int) -> Any:
        return "brain"


WORDS: Kind[str] = Kind(ConnectionType.TOOL)


class Speaker(MainNode[AnyParameters]):
    """Says the words that it is supplied with, each as a run of the sub-node."""

    type, versions, parameters_class = "speaker", (1, 1), AnyParameters
    accepts = {ConnectionType.LANGUAGE_MODEL: True, ConnectionType.TOOL: False}  # noqa: RUF012

    async def run(self, ctx: RunContext[Any]) -> list[list[Item]]:
        said = []
        for index in range(len(ctx.items)):
            for word in await ctx.supplied(WORDS, index):
                async with ctx.sub_run(word, {"item": index}) as run:
                    if word.value == "bad":
                        raise ModelFailed("bad word")
                    run.output({"said": word.value})
                said.append(word.value)
        return [[Item({"output": " ".join(said)})]]


def registry() -> Registry:
    return by_type(
        [Start, Pass, Give, Choose, Merge, Count, Fail, Talk, Word, Brain, Speaker, EditFieldsNode],
    )


def node(name: str, kind: str, x: float = 0, y: float = 0, **rest: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, "typeVersion": rest.pop("version", 1), "position": [x, y], **rest}


def workflow_json(nodes: Sequence[dict[str, Any]], *links: str, order: str | None = "v1") -> dict[str, Any]:
    """A link reads `From[.output] > To[.input] [type]`."""
    connections: dict[str, dict[str, list[list[dict[str, Any]]]]] = {}
    for link in links:
        source, _, rest = link.partition(" > ")
        target, _, kind = rest.partition(" ")
        kind = kind or "main"
        source, _, output = source.partition(".")
        target, _, index = target.partition(".")
        outputs = connections.setdefault(source, {}).setdefault(kind, [])
        while len(outputs) <= int(output or 0):
            outputs.append([])
        outputs[int(output or 0)].append({"node": target, "type": kind, "index": int(index or 0)})
    settings = {"executionOrder": order} if order else {}
    return {"id": "wf-1", "name": "Test", "nodes": list(nodes), "connections": connections, "settings": settings}


def make(nodes: Sequence[dict[str, Any]], *links: str, order: str | None = "v1") -> Workflow:
    definition = workflow_json(nodes, *links, order=order)
    return parse_workflow(definition, source="test", registry=registry(), strict=True)


def chain(*middle: dict[str, Any]) -> Workflow:
    """Start and then the nodes, one after the other."""
    nodes = [node("Start", "start"), *middle]
    names = [str(entry["name"]) for entry in nodes]
    return make(nodes, *(f"{first} > {second}" for first, second in pairwise(names)))


class Clock:
    """Seconds that pass by one with each look."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.slept: list[float] = []

    def __call__(self) -> float:
        self.now += 1
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)


def no_network() -> Any:
    raise AssertionError("no test of the engine needs the network")


class Finished:
    """A run that is over, and what it sent."""

    def __init__(self, run: WorkflowRun, outcome: Outcome | None, clock: Clock, chunks: list[StreamChunk]) -> None:
        self.run = run
        self.found = outcome
        self.clock = clock
        self.chunks = chunks

    @property
    def outcome(self) -> Outcome:
        assert self.found is not None
        return self.found

    @property
    def order(self) -> list[str]:
        return [record.node for record in self.run.run_data]

    def outputs(self, name: str, index: int = 0) -> list[list[dict[str, Any]]]:
        return [record for record in self.run.run_data if record.node == name][index].outputs

    @property
    def lines(self) -> list[str]:
        return [shown(chunk) for chunk in self.chunks]


def shown(chunk: StreamChunk) -> str:
    name = chunk.metadata.node_name
    if isinstance(chunk, ItemChunk):
        return f"{name}: {chunk.content}"
    if isinstance(chunk, Error):
        return f"{name} error {chunk.code}: {chunk.content}"
    return f"{name} {'begin' if isinstance(chunk, Begin) else 'end' if isinstance(chunk, End) else chunk}"


async def arun(
    workflow: Workflow,
    *items: Mapping[str, Any],
    stream: bool = False,
    clock: Clock | None = None,
    hooks: Hooks | None = None,
    workflows: Mapping[str, Workflow] | None = None,
    **settings: Any,
) -> Finished:
    clock = clock or Clock()
    known = workflows or {}

    async def find(workflow: str | Mapping[str, Any]) -> Workflow | None:
        return known.get(workflow if isinstance(workflow, str) else workflow["id"])

    chunks: list[StreamChunk] = []

    async def keep(chunk: StreamChunk) -> None:
        chunks.append(chunk)

    hooks = hooks or Hooks(keep if stream else None)
    given = Services(Settings(**settings), cast(OpenMemory, no_network), no_network, clock=clock, workflow=find)
    run = WorkflowRun(workflow, INFO, given, hooks, sleep=clock.sleep)
    finished = Finished(run, None, clock, chunks)
    finished.found = await run.start("Start", [Item(dict(item)) for item in items] or [Item({"v": 1})])
    return finished


def run(workflow: Workflow, *items: Mapping[str, Any], stream: bool = False, **settings: Any) -> Finished:
    return asyncio.run(arun(workflow, *items, stream=stream, **settings))
