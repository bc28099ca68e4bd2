"""What a node is given while it runs: the contract's context over a run as it stands."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Literal, TypeVar, cast

from msgspec import UNSET
from pydantic import ValidationError

from convoq.contract.connections import Kind
from convoq.contract.context import Runs, SubRun, Supplied
from convoq.contract.definition import Node
from convoq.contract.execution import Cancellation, ExecutionInfo
from convoq.contract.items import Item, Outputs
from convoq.contract.node import SubNode
from convoq.contract.response import HttpResponse
from convoq.contract.run_data import NodeRun, Tokens
from convoq.contract.services import Services
from convoq.contract.waiting import Wait
from convoq.engine.plan import Step
from convoq.engine.scope import NOTHING, ItemScope
from convoq.engine.state import CANCELLED, Executed, RunState, named
from convoq.errors import BadParameter, CredentialMissing, NodeFailed
from convoq.expressions.evaluate import evaluate, evaluate_given
from convoq.protocol import Begin, Cut, End, Kept, Metadata, Reasoning
from convoq.protocol import Item as ItemChunk

T = TypeVar("T")


class NodeContext:
    """The context of a node's run, and of each sub-node that it pulls: those see the items of their consumer."""

    __slots__ = ("_state", "_step", "executed")

    def __init__(self, state: RunState, step: Step, executed: Executed) -> None:
        self._state = state
        self._step = step
        self.executed = executed

    @property
    def node(self) -> Node:
        return self._step.node

    @property
    def execution(self) -> ExecutionInfo:
        return self._state.info

    @property
    def services(self) -> Services:
        return self._state.services

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

    @property
    def kept(self) -> dict[str, Any]:
        return self._state.kept.setdefault(self.node.name, {})

    def earlier_items(self, run_index: int) -> Sequence[Item]:
        found = self._state.run_of(self.node.name, run_index)
        return found.inputs[0] if found is not None else ()

    @property
    def started_with(self) -> Mapping[str, Any]:
        first = self._state.history[0] if self._state.history else self.executed
        items = first.inputs[0] if first.inputs else []
        return items[0].json if items else {}

    @property
    def cancellation(self) -> Cancellation:
        return self._state.hooks.cancellation

    @property
    def deadline(self) -> float:
        return self._state.deadline

    async def parameters(self, item_index: int = 0) -> Any:
        """An expression that comes to nothing leaves the parameter at its default."""
        step = self._step
        if step.fixed is not None:
            return step.fixed
        given: Any = step.node.parameters
        if step.dynamic:
            now, later = step.type.parameters_class.set_aside(given)
            given = _joined(await evaluate_given(now, self._scope(item_index)), later)
        try:
            parsed = step.type.parameters_class.model_validate(given, context=step.reading)
        except ValidationError as error:
            first = error.errors(include_url=False, include_context=False)[0]
            where = ".".join(map(str, first["loc"]))
            raise BadParameter(
                f"{self.node.name}: parameter {where!r}: {first['msg']} (got {repr(first['input'])[:200]})",
                node=self.node.name,
                parameter=where,
                item=item_index,
            ) from None
        if not step.dynamic:
            step.fixed = parsed
        return parsed

    async def evaluate(self, template: object, item_index: int = 0, variables: Mapping[str, Any] | None = None) -> Any:
        return await evaluate(template, self._scope(item_index, variables or {}))

    async def evaluate_with(self, template: object, arguments: Mapping[str, Any], item_index: int) -> Any:
        return await evaluate(template, ItemScope(self._state, self.node.name, self.executed, item_index, arguments))

    def _scope(self, item_index: int, variables: Mapping[str, Any] = NOTHING) -> ItemScope:
        return ItemScope(self._state, self.node.name, self.executed, item_index, extra=variables)

    async def credential(self, kind: str) -> Mapping[str, Any] | None:
        reference = self.node.credentials.get(kind)
        fields = await self.services.credential(kind, reference if isinstance(reference, Mapping) else {})
        if fields is not None:
            self._state.secrets.add(fields)
        return fields

    async def needed_credential(self, *kinds: str) -> Mapping[str, Any]:
        for kind in kinds:
            if (fields := await self.credential(kind)) is not None:
                return fields
        kind = next((kind for kind in kinds if kind in self.node.credentials), kinds[0])
        reference = self.node.credentials.get(kind)
        name = reference.get("name") or reference.get("id") if isinstance(reference, Mapping) else None
        known = f"credential {name!r} is not known" if name else "the node has no credential"
        raise CredentialMissing(
            f"{known}: add one of type {kind!r} with `convoq credential add {kind}`", node=self.node.name
        )

    async def supplied(self, kind: Kind[T], item_index: int = 0) -> Sequence[Supplied[T]]:
        state = self._state
        found = []
        for node in state.workflow.sub_nodes(self.node.name, kind.type):
            step = state.plan[node.name]
            context = NodeContext(state, step, self.executed)
            try:
                value = await cast(SubNode[Any], step.type).supply(context, item_index)
            except Exception as error:
                failure = named(error, node.name)
                raise failure from failure.__cause__
            if step.edges:
                self.executed.pulled.setdefault(node.name, []).append(value)
            found.append(Supplied(node, kind, cast(T, value)))
        return found

    def is_streaming(self) -> bool:
        return self._state.hooks.is_streaming()

    async def before_effect(self) -> None:
        if (note := self._state.hooks.before_effect) is not None:
            await note()

    def wants_reasoning(self) -> bool:
        return self._state.hooks.reasoning

    async def send_chunk(
        self,
        kind: Literal["begin", "reasoning", "item", "end"],
        item_index: int,
        text: str = "",
        cut: Cut | None = None,
        memory: Kept | None = None,
    ) -> None:
        state = self._state
        node = self._step.node
        metadata = Metadata(
            node.id, node.name, item_index, self.executed.run_index, state.now_ms(), cut or UNSET, memory or UNSET
        )
        if kind == "item":
            await state.hooks.emit(ItemChunk(text, metadata))
        elif kind == "reasoning":
            await state.hooks.emit(Reasoning(text, metadata))
        else:
            await state.hooks.emit(Begin(metadata) if kind == "begin" else End(metadata))

    async def respond(self, response: HttpResponse, texts: Sequence[str]) -> bool:
        hooks = self._state.hooks
        if self.is_streaming():
            for index, text in enumerate(texts):
                await self.send_chunk("begin", index)
                await self.send_chunk("item", index, text)
                await self.send_chunk("end", index)
            hooks.responded = hooks.responded or bool(texts)
            return bool(texts)
        if hooks.respond is None or hooks.responded:
            return False
        hooks.responded = True
        await hooks.respond(response)
        return True

    def note(self, sentence: str) -> None:
        if self.executed.record is not None and sentence not in self.executed.record.notes:
            self.executed.record.notes.append(self._state.secrets.mask(sentence))

    @asynccontextmanager
    async def sub_run(self, supplied: Supplied[Any], given: Mapping[str, Any]) -> AsyncIterator[SubRun]:
        state = self._state
        name = supplied.node.name
        record = state.begin_record(name, supplied.kind.type, [[dict(given)]])
        try:
            yield _SubRun(record)
        except Exception as error:
            failure = named(error, name)
            state.end_record(record, failure)
            raise failure from failure.__cause__
        except BaseException:
            state.end_record(record, CANCELLED)
            raise
        state.end_record(record)

    async def invoke(self, node_type: Runs, arguments: Mapping[str, Any], item_index: int) -> Outputs:
        consumer = self.executed
        executed = Executed(self._step, consumer.run_index, [[consumer.inputs[0][item_index]]], consumer.sources[:1])
        executed.record = consumer.record
        outputs = await node_type.run(_ToolContext(self._state, self._step, executed, consumer, item_index, arguments))
        if isinstance(outputs, Wait):
            raise NodeFailed("a node that waits cannot be used as a tool", node=self.node.name)
        return outputs

    async def call_workflow(self, workflow: str | Mapping[str, Any], items: Sequence[Item]) -> Sequence[Item]:
        return await self._state.call(workflow, items)


def _joined(given: dict[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    """One nested in the other."""
    for name, value in more.items():
        inner = given.get(name)
        given[name] = _joined(inner, value) if isinstance(inner, dict) and isinstance(value, dict) else value
    return given


class _ToolContext(NodeContext):
    """The context of a node that a model called: its expressions see what its consumer's see, and `$fromAI`."""

    __slots__ = ("_arguments", "_consumer", "_item_index")

    def __init__(
        self,
        state: RunState,
        step: Step,
        executed: Executed,
        consumer: Executed,
        item_index: int,
        arguments: Mapping[str, Any],
    ) -> None:
        super().__init__(state, step, executed)
        self._consumer = consumer
        self._item_index = item_index
        self._arguments = arguments

    def _scope(self, item_index: int, variables: Mapping[str, Any] = NOTHING) -> ItemScope:
        name = self.node.name
        return ItemScope(self._state, name, self._consumer, self._item_index, self._arguments, variables)

    def is_streaming(self) -> bool:
        return False


class _SubRun:
    __slots__ = ("_record",)

    def __init__(self, record: NodeRun) -> None:
        self._record = record

    def output(self, *items: dict[str, Any], tokens: Tokens | None = None) -> None:
        self._record.outputs = [list(items)]
        self._record.tokens = tokens

    def note(self, sentence: str) -> None:
        self._record.notes.append(sentence)
