"""What a node is given while it runs, and what its expressions see."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, cast

from pydantic import ValidationError

from convoq.contract.base import ConnectionType, ExecutionInfo, Item, NodeRun, SubNode, SubRun, Supplied
from convoq.engine.plan import Step
from convoq.errors import ConvoqError, ExpressionFailed, NodeFailed
from convoq.expressions.evaluate import evaluate, evaluate_given
from convoq.protocol import Begin, End, Metadata
from convoq.protocol import Item as ItemChunk

if TYPE_CHECKING:
    from convoq.contract.services import Services
    from convoq.engine.run import WorkflowRun
    from convoq.engine.workflow import Node, Workflow


@dataclass(slots=True)
class Executed:
    """One run of a main node. `sources` tells for each input which run and output its items came from. `pulled` are
    the sub-nodes with outputs of their own that it used, and what they supplied; `supplied` is that of such a
    sub-node's run after its consumer's."""

    step: Step
    run_index: int
    inputs: list[list[Item]]
    sources: list[tuple[Executed, int] | None]
    outputs: list[list[Item]] = field(default_factory=list)
    last_try: bool = True
    pulled: dict[str, list[Any]] = field(default_factory=dict)
    supplied: Sequence[Any] | None = None

    @property
    def name(self) -> str:
        return self.step.node.name


def named(error: Exception, node: str) -> ConvoqError:
    """The failure as one of ours, naming the node where it does not name one yet."""
    if isinstance(error, ConvoqError):
        error.details.setdefault("node", node)
        return error
    failure = NodeFailed(f"{node}: {type(error).__name__}: {error}", node=node)
    failure.__cause__ = error
    return failure


class NodeContext:
    """The context of a node's run, and of each sub-node that it pulls: those see the items of their consumer."""

    __slots__ = ("_run", "_step", "executed")

    def __init__(self, run: WorkflowRun, step: Step, executed: Executed) -> None:
        self._run = run
        self._step = step
        self.executed = executed

    @property
    def node(self) -> Node:
        return self._step.node

    @property
    def execution(self) -> ExecutionInfo:
        return self._run.info

    @property
    def services(self) -> Services:
        return self._run.services

    @property
    def run_index(self) -> int:
        return self.executed.run_index

    @property
    def items(self) -> Sequence[Item]:
        return self.executed.inputs[0]

    @property
    def inputs(self) -> Sequence[Sequence[Item]]:
        return self.executed.inputs

    @property
    def last_try(self) -> bool:
        return self.executed.last_try

    def parameters(self, item_index: int = 0) -> Any:
        """An expression that comes to nothing leaves the parameter at its default."""
        step = self._step
        if step.fixed is not None:
            return step.fixed
        given: Any = step.node.parameters
        if step.dynamic:
            given = evaluate_given(given, self._scope(item_index))
        try:
            parsed = step.type.parameters_class.model_validate(given)
        except ValidationError as error:
            first = error.errors(include_url=False, include_context=False)[0]
            where = ".".join(map(str, first["loc"]))
            raise NodeFailed(
                f"{self.node.name}: parameter {where!r}: {first['msg']} (got {repr(first['input'])[:200]})",
                node=self.node.name,
                parameter=where,
                item=item_index,
            ) from None
        if not step.dynamic:
            step.fixed = parsed
        return parsed

    def evaluate(self, template: object, item_index: int = 0) -> Any:
        return evaluate(template, self._scope(item_index))

    def _scope(self, item_index: int) -> ItemScope:
        return ItemScope(self._run, self.node.name, self.executed, item_index)

    async def supplied(self, kind: ConnectionType, item_index: int = 0) -> Sequence[Supplied[Any]]:
        run = self._run
        found = []
        for node in run.workflow.sub_nodes(self.node.name, kind):
            step = run.plan[node.name]
            context = NodeContext(run, step, self.executed)
            try:
                value = await cast(SubNode[Any], step.type).supply(context, item_index)
            except Exception as error:
                failure = named(error, node.name)
                raise failure from failure.__cause__
            if step.edges:
                self.executed.pulled.setdefault(node.name, []).append(value)
            found.append(Supplied(node, value))
        return found

    def is_streaming(self) -> bool:
        return self._run.hooks.is_streaming()

    @property
    def stopping(self) -> bool:
        return self._run.hooks.stopping

    async def before_effect(self) -> None:
        if (note := self._run.hooks.before_effect) is not None:
            await note()

    async def send_chunk(self, kind: Literal["begin", "item", "end"], item_index: int, text: str = "") -> None:
        run = self._run
        node = self._step.node
        metadata = Metadata(node.id, node.name, item_index, self.executed.run_index, run.now_ms())
        if kind == "item":
            await run.hooks.emit(ItemChunk(text, metadata))
        else:
            await run.hooks.emit(Begin(metadata) if kind == "begin" else End(metadata))

    @asynccontextmanager
    async def sub_run(
        self, supplied: Supplied[Any], kind: ConnectionType, given: Mapping[str, Any]
    ) -> AsyncIterator[SubRun]:
        run = self._run
        name = supplied.node.name
        record = run.begin_record(name, kind, [[dict(given)]])
        try:
            yield _SubRun(record)
        except Exception as error:
            failure = named(error, name)
            run.end_record(record, failure)
            raise failure from failure.__cause__
        except BaseException:
            run.end_record(record, CANCELLED)
            raise
        run.end_record(record)


CANCELLED = NodeFailed("cancelled")


class _SubRun:
    __slots__ = ("_record",)

    def __init__(self, record: NodeRun) -> None:
        self._record = record

    def output(self, *items: dict[str, Any]) -> None:
        self._record.outputs = [list(items)]


class ItemScope:
    """What the expressions of one node see on one item."""

    __slots__ = ("_executed", "_run", "item_index", "node_name")

    def __init__(self, run: WorkflowRun, node_name: str, executed: Executed, item_index: int) -> None:
        self._run = run
        self._executed = executed
        self.node_name = node_name
        self.item_index = item_index

    @property
    def items(self) -> Sequence[Item]:
        return self._executed.inputs[0]

    @property
    def run_index(self) -> int:
        return self._executed.run_index

    @property
    def execution(self) -> ExecutionInfo:
        return self._run.info

    @property
    def workflow(self) -> Workflow:
        return self._run.workflow

    def node_items(self, name: str) -> Sequence[Item]:
        last = self._last_run(name)
        output = next((output for executed, output in self._way_back() if executed.name == name), 0)
        return last.outputs[output] if output < len(last.outputs) else ()

    def node_item(self, name: str) -> Item | None:
        self._last_run(name)
        index: int | None = self.item_index
        for executed, output in self._way_back():
            items = executed.outputs[output]
            if index is None or index >= len(items):
                break
            if executed.name == name:
                return items[index]
            index = _origin(executed, items, index)
        items = list(self.node_items(name))
        if len(items) > 1:
            raise ExpressionFailed(
                f"which of the {len(items)} items of {name!r} belongs to item {self.item_index} is not known; "
                "take .first() or .last()"
            )
        return items[0] if items else None

    def _last_run(self, name: str) -> Executed:
        if (found := self._run.last_run(name)) is None:
            missing = name not in self._run.workflow.nodes
            raise ExpressionFailed(f"there is no node {name!r}" if missing else f"node {name!r} has not run")
        return found

    def _way_back(self) -> Iterator[tuple[Executed, int]]:
        """The runs that led here by the first inputs, the nearest first."""
        source = self._executed.sources[0]
        while source is not None:
            yield source
            source = source[0].sources[0]


def _origin(executed: Executed, items: Sequence[Item], index: int) -> int | None:
    """The input item that an output item came from; n8n's guess where the node did not tell."""
    if (paired := items[index].paired_item) is not None:
        return paired
    given = len(executed.inputs[0])
    if given == 1:
        return 0
    return index if given == len(items) else None
