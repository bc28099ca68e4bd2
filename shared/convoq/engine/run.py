"""A run of a workflow: nodes one after the other, in one of n8n's orders (`convoq.engine.order`)."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Any, cast

from convoq.contract.connections import ConnectionType
from convoq.contract.context import RunContext
from convoq.contract.definition import Connection
from convoq.contract.execution import ExecutionInfo
from convoq.contract.items import Item, Outputs, PairedItem
from convoq.contract.node import MainNode, PortedSubNode
from convoq.contract.run_data import NodeRun
from convoq.contract.services import Services
from convoq.contract.waiting import Resumed, Wait
from convoq.engine.context import NodeContext
from convoq.engine.hooks import Hooks
from convoq.engine.outcome import Outcome, failure_of, outcome_of, waiting_for
from convoq.engine.plan import Step
from convoq.engine.state import CANCELLED, Executed, RunState, named
from convoq.engine.wait_here import wait_here
from convoq.engine.workflow import Workflow
from convoq.errors import ConvoqError, ExecutionFailed, Fenced, NodeFailed, Stopped, TimedOut

MAX_NODE_RUNS = 10_000
"""A loop over a few thousand items is one that ends; what runs longer has the execution's time limit to meet."""
MAX_DEPTH = 10
"""Workflows that call each other: deeper is a circle, or a mistake."""
Source = tuple[Executed, int]


class PartialInputs:
    """A node with several inputs, some of which have not been given anything yet."""

    __slots__ = ("inputs", "sources")

    def __init__(self, inputs: int) -> None:
        self.inputs: list[list[Item] | None] = [None] * inputs
        self.sources: list[Source | None] = [None] * inputs


@dataclass(frozen=True, slots=True)
class Due:
    """A node that runs next, on these items. `supplied`: a sub-node with outputs, after its consumer has run."""

    step: Step
    inputs: list[list[Item]]
    sources: list[Source | None]
    supplied: Sequence[Any] | None = None


class WorkflowRun:
    """Runs a workflow once. `run_data` grows while it does.

    `start` gives the outcome, a failure of a node included; where a node waits, the outcome says so, and `resume` goes
    on, here or in another process (`convoq.engine.snapshot`). What ends a run from outside goes through both:
    cancellation, `Stopped`, `TimedOut`, `Fenced`. Items are passed on as they are: a node never changes those it was
    given.
    """

    def __init__(
        self,
        workflow: Workflow,
        info: ExecutionInfo,
        services: Services,
        hooks: Hooks | None = None,
        *,
        deadline: float = inf,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.state = RunState(workflow, info, services, hooks or Hooks(), self._call, deadline)
        self.hooks = self.state.hooks
        self.due: deque[Due] = deque()
        self.waiting: dict[str, list[PartialInputs]] = {}
        self.parked: tuple[Executed, Wait] | None = None
        self._sleep = sleep

    @property
    def run_data(self) -> list[NodeRun]:
        return self.state.run_data

    def run_data_json(self) -> bytes:
        return self.state.run_data_json()

    async def start(self, trigger: str, items: Sequence[Item]) -> Outcome:
        step = self.state.plan.get(trigger)
        if step is None or not isinstance(step.type, MainNode) or not step.type.is_trigger or step.node.disabled:
            return Outcome("error", ExecutionFailed(f"the workflow has no enabled trigger {trigger!r}"), trigger)
        self.due.append(Due(step, [list(items)], [None]))
        return await self._go_on()

    async def resume(self, resumed: Resumed) -> Outcome:
        """Go on with the node that waits. Raises `ExecutionFailed` where none does."""
        if self.parked is None:
            raise ExecutionFailed("no node of this execution waits")
        (executed, wait), self.parked = self.parked, None
        return (
            await self._step(executed, lambda node, ctx: node.resume(ctx, wait.state, resumed)) or await self._go_on()
        )

    async def _go_on(self) -> Outcome:
        while self.due or self._release():
            due = self.due.popleft()
            executed = Executed(due.step, self.state.runs[due.step.node.name], due.inputs, due.sources)
            executed.supplied = due.supplied
            self.state.runs[executed.name] += 1
            if (outcome := await self._step(executed, _run)) is not None:
                return outcome
        return outcome_of(self.state.history)

    async def _step(self, executed: Executed, call: Call) -> Outcome | None:
        """Run one node; the outcome, where it ends the run or waits."""
        try:
            wait = await self._execute(executed, call)
        except (Stopped, TimedOut, Fenced):
            raise
        except ConvoqError as error:
            return failure_of(executed, error)
        if wait is not None:
            self.parked = (executed, wait)
            return waiting_for(executed, wait)
        self.state.done(executed)
        self._follow(executed)
        return None

    def context(self, name: str, items: Sequence[Item]) -> RunContext[Any]:
        """The context of a node that does not run: for who wants only what is connected to it."""
        step = self.state.plan[name]
        return NodeContext(self.state, step, Executed(step, 0, [list(items)], [None]))

    async def _execute(self, executed: Executed, call: Call) -> Wait | None:
        """Run the node and fill in its outputs, or tell what it waits for, or raise what stops the workflow."""
        node, state = executed.step.node, self.state
        if len(state.history) >= MAX_NODE_RUNS:
            message = f"{node.name}: {MAX_NODE_RUNS} node runs and still no end: a loop that nothing ends?"
            raise NodeFailed(message, node=node.name)
        if node.execute_once:
            executed.inputs = [items[:1] for items in executed.inputs]
        record = executed.record or state.begin_record(
            node.name, ConnectionType.MAIN, [[item.json for item in items] for items in executed.inputs]
        )
        executed.record = record
        failure: ConvoqError | None = None
        try:
            if node.disabled:
                executed.outputs = [_passed(executed.inputs[0])]
            else:
                found = await self._attempt(executed, call)
                if isinstance(found, Wait):
                    return found
                executed.outputs = found
        except NodeFailed as error:
            failure = error
            if node.on_error == "stopWorkflow":
                raise
            await self.hooks.end_segments(state.now_ms())
            executed.outputs = _error_outputs(executed, error.message)
        except Exception as error:
            failure = cast(ConvoqError, error)
            raise
        except BaseException:
            failure = CANCELLED
            raise
        finally:
            if node.always_output_data and failure is None and not (executed.outputs and executed.outputs[0]):
                every = [
                    PairedItem(at, given) for given, items in enumerate(executed.inputs) for at in range(len(items))
                ]
                executed.outputs[:1] = [[Item({}, paired_item=every)]]
            record.outputs = [[item.json for item in items] for items in executed.outputs]
            state.end_record(record, failure)
        return None

    async def _attempt(self, executed: Executed, call: Call) -> Outputs | Wait:
        node, state = executed.step.node, self.state
        context = NodeContext(state, executed.step, executed)
        node_type = cast(MainNode[Any], executed.step.type)
        for tries_left in reversed(range(node.tries)):
            executed.last_try = not tries_left
            executed.pulled.clear()
            try:
                if executed.supplied is not None:
                    return await cast(PortedSubNode[Any], node_type).after(context, executed.supplied)
                return await call(node_type, context)
            except Exception as error:
                failure = named(error, node.name)
                failure.message = state.secrets.mask(failure.message)
                # What is of the execution and not of the node (stopped, fenced, stream too large) has no second try.
                final = isinstance(failure, ExecutionFailed) and not isinstance(failure, NodeFailed)
                if final or not tries_left:
                    raise failure from failure.__cause__
            await self.hooks.end_segments(state.now_ms())
            await self._sleep(node.wait_s)
        raise AssertionError("a node has at least one try")

    async def _call(self, workflow: str | Mapping[str, Any], items: Sequence[Item]) -> Sequence[Item]:
        """Another workflow's answer to items, run within this execution: its time, its signal, its depth."""
        state = self.state
        if state.info.depth >= MAX_DEPTH:
            raise NodeFailed(f"workflows call each other more than {MAX_DEPTH} deep")
        found: Workflow | None = await state.services.workflow(workflow)
        if found is None:
            raise NodeFailed(f"there is no workflow {workflow!r} to be called")
        trigger = found.called_by()
        if trigger is None:
            raise NodeFailed(f"workflow {found.name!r} has no trigger for calls by other workflows")
        info = replace(state.info, workflow_id=found.id, workflow_name=found.name, depth=state.info.depth + 1)
        hooks = Hooks(before_effect=self.hooks.before_effect, cancellation=self.hooks.cancellation)
        run = WorkflowRun(found, info, state.services, hooks, deadline=state.deadline, sleep=self._sleep)
        outcome = await wait_here(run, await run.start(trigger, items), sleep=self._sleep)
        if outcome.error is not None:
            raise NodeFailed(f"workflow {found.name!r} failed: {outcome.error.message}")
        return run.last_items()

    def last_items(self) -> Sequence[Item]:
        """The items of the last node's first output that has any."""
        return next((items for items in self.state.history[-1].outputs if items), []) if self.state.history else []

    def _follow(self, executed: Executed) -> None:
        """Put what comes next among what is due. Like n8n, only inputs after the first hear of no items."""
        for edge in executed.step.edges:
            if edge.output < len(executed.outputs):
                items = executed.outputs[edge.output]
                if items or edge.input:
                    self._deliver(edge, items, (executed, edge.output))
        for name, values in executed.pulled.items():  # first of all, so that what comes next can refer to it
            self.due.appendleft(Due(self.state.plan[name], executed.inputs, executed.sources, values))

    def _deliver(self, edge: Connection, items: list[Item], source: Source) -> None:
        step = self.state.plan[edge.target]
        if step.inputs == 1:
            self._put(Due(step, [items], [source]))
            return
        queue = self.waiting.setdefault(edge.target, [])
        waiting = next((entry for entry in queue if entry.inputs[edge.input] is None), None)
        if waiting is None:
            waiting = PartialInputs(step.inputs)
            queue.append(waiting)
        waiting.inputs[edge.input] = items
        waiting.sources[edge.input] = source
        if None not in waiting.inputs:
            queue.remove(waiting)
            self._put(_complete(step, waiting))

    def _release(self) -> bool:
        """Nothing else can run: the first node that waits for inputs in vain runs with what it has, if it has items."""
        plan = self.state.plan
        while waiting := [name for name, queue in self.waiting.items() if queue and not plan[name].insists]:
            free = [name for name in waiting if not plan[name].ancestors.intersection(waiting)]
            name = (free or waiting)[0]
            entry = self.waiting[name].pop(0)
            if any(entry.inputs):
                self._put(_complete(plan[name], entry))
                return True
        return False

    def _put(self, due: Due) -> None:
        self.state.workflow.order.put(self.due, due)


Call = Callable[[MainNode[Any], RunContext[Any]], Awaitable[Outputs | Wait]]


def _complete(step: Step, partial: PartialInputs) -> Due:
    return Due(step, [items or [] for items in partial.inputs], partial.sources)


def _run(node: MainNode[Any], ctx: RunContext[Any]) -> Awaitable[Outputs | Wait]:
    return node.run(ctx)


def _passed(items: Sequence[Item]) -> list[Item]:
    return [Item(item.json, item.binary, index) for index, item in enumerate(items)]


def _error_outputs(executed: Executed, message: str) -> list[list[Item]]:
    """One item for each that the node was given; on the error output it keeps what it was."""
    node_type = cast(MainNode[Any], executed.step.type)
    items = executed.inputs[0]
    if executed.step.node.on_error == "continueRegularOutput":
        return [[Item({"error": message}, paired_item=index) for index in range(len(items))]]
    failed = [Item({**item.json, "error": message}, item.binary, index) for index, item in enumerate(items)]
    return [*([] for _ in range(node_type.output_count(executed.step.node))), failed]
