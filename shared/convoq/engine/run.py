"""A run of a workflow: nodes one after the other in n8n's order v1, depth first, the upper branch before the lower."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from convoq.contract.base import ConnectionType, ExecutionInfo, Item, MainNode, NodeRun, PortedSubNode, RunContext
from convoq.engine.context import CANCELLED, Executed, NodeContext, named
from convoq.engine.hooks import Hooks
from convoq.engine.outcome import Outcome, failure_of, outcome_of
from convoq.engine.plan import Step
from convoq.engine.run_data import run_data_json
from convoq.errors import ConvoqError, ExecutionFailed, Fenced, NodeFailed, Stopped, TimedOut

if TYPE_CHECKING:
    from convoq.contract.services import Services
    from convoq.engine.workflow import Connection, Workflow

MAX_NODE_RUNS = 1000
Source = tuple[Executed, int]


class _Waiting:
    """A node with several inputs, some of which have not been given anything yet."""

    __slots__ = ("inputs", "sources")

    def __init__(self, inputs: int) -> None:
        self.inputs: list[list[Item] | None] = [None] * inputs
        self.sources: list[Source | None] = [None] * inputs


class WorkflowRun:
    """Runs a workflow once. `run_data` grows while it does.

    `start` gives the outcome, a failure of a node included. What ends a run from outside goes through it: cancellation,
    `Stopped`, `TimedOut`, `Fenced`. Items are passed on as they are: a node never changes those it was given.
    """

    def __init__(
        self,
        workflow: Workflow,
        info: ExecutionInfo,
        services: Services,
        hooks: Hooks | None = None,
        *,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.workflow = workflow
        self.plan: Mapping[str, Step] = workflow.plan
        self.info = info
        self.services = services
        self.hooks = hooks or Hooks()
        self.run_data: list[NodeRun] = []
        self._sleep = sleep
        self._history: list[Executed] = []
        self._last: dict[str, Executed] = {}
        self._runs: Counter[str] = Counter()
        self._next: deque[tuple[Step, list[list[Item]], list[Source | None], Sequence[Any] | None]] = deque()
        self._waiting: dict[str, list[_Waiting]] = {}

    async def start(self, trigger: str, items: Sequence[Item]) -> Outcome:
        step = self.plan.get(trigger)
        if step is None or not isinstance(step.type, MainNode) or not step.type.is_trigger or step.node.disabled:
            return Outcome("error", ExecutionFailed(f"the workflow has no enabled trigger {trigger!r}"), trigger)
        self._next.append((step, [list(items)], [None], None))
        while self._next or self._release():
            step, inputs, sources, supplied = self._next.popleft()
            executed = Executed(step, self._runs[step.node.name], inputs, sources, supplied=supplied)
            self._runs[step.node.name] += 1
            try:
                await self._execute(executed)
            except (Stopped, TimedOut, Fenced):
                raise
            except ConvoqError as error:
                return failure_of(executed, error)
            self._history.append(executed)
            self._last[executed.name] = executed
            self._follow(executed)
        return outcome_of(self._history)

    def context(self, name: str, items: Sequence[Item]) -> RunContext[Any]:
        """The context of a node that does not run: for who wants only what is connected to it."""
        step = self.plan[name]
        return NodeContext(self, step, Executed(step, 0, [list(items)], [None]))

    def run_data_json(self) -> bytes:
        """`run_data` as JSON, within the setting `run_data_max_bytes`."""
        return run_data_json(self.run_data, self.services.settings.run_data_max_bytes)

    def last_run(self, name: str) -> Executed | None:
        return self._last.get(name)

    def now_ms(self) -> int:
        return int(self.services.clock() * 1000)

    async def _execute(self, executed: Executed) -> None:
        """Run the node and fill in its outputs, or raise what stops the workflow."""
        node = executed.step.node
        if len(self._history) >= MAX_NODE_RUNS:
            message = f"{node.name}: {MAX_NODE_RUNS} node runs and still no end: a loop that nothing ends?"
            raise NodeFailed(message, node=node.name)
        if node.execute_once:
            executed.inputs = [items[:1] for items in executed.inputs]
        record = self.begin_record(
            node.name, ConnectionType.MAIN, [[item.json for item in items] for items in executed.inputs]
        )
        failure: ConvoqError | None = None
        try:
            if node.disabled:
                executed.outputs = [_passed(executed.inputs[0])]
            else:
                executed.outputs = await self._attempt(executed)
        except NodeFailed as error:
            failure = error
            if node.on_error == "stopWorkflow":
                raise
            await self.hooks.end_segments(self.now_ms())
            executed.outputs = _error_outputs(executed, error.message)
        except Exception as error:
            failure = cast(ConvoqError, error)
            raise
        except BaseException:
            failure = CANCELLED
            raise
        finally:
            if node.always_output_data and failure is None and not (executed.outputs and executed.outputs[0]):
                executed.outputs[:1] = [[Item({}, paired_item=0)]]
            record.outputs = [[item.json for item in items] for items in executed.outputs]
            self.end_record(record, failure)

    async def _attempt(self, executed: Executed) -> list[list[Item]]:
        node = executed.step.node
        context = NodeContext(self, executed.step, executed)
        node_type = cast(MainNode[Any], executed.step.type)
        for tries_left in reversed(range(node.tries)):
            executed.last_try = not tries_left
            executed.pulled.clear()
            try:
                if executed.supplied is not None:
                    return await cast(PortedSubNode[Any], node_type).after(context, executed.supplied)
                return await node_type.run(context)
            except Exception as error:
                failure = named(error, node.name)
                # What is of the execution and not of the node (stopped, fenced, stream too large) has no second try.
                final = isinstance(failure, ExecutionFailed) and not isinstance(failure, NodeFailed)
                if final or not tries_left:
                    raise failure from failure.__cause__
            await self.hooks.end_segments(self.now_ms())
            await self._sleep(node.wait_s)
        raise AssertionError("a node has at least one try")

    def _follow(self, executed: Executed) -> None:
        """Put what comes next in front of all that waits. Like n8n, only inputs after the first hear of no items."""
        for edge in executed.step.edges:
            if edge.output < len(executed.outputs):
                items = executed.outputs[edge.output]
                if items or edge.input:
                    self._deliver(edge, items, (executed, edge.output))
        for name, values in executed.pulled.items():  # first of all, so that what comes next can refer to it
            self._next.appendleft((self.plan[name], executed.inputs, executed.sources, values))

    def _deliver(self, edge: Connection, items: list[Item], source: Source) -> None:
        step = self.plan[edge.target]
        if step.inputs == 1:
            self._next.appendleft((step, [items], [source], None))
            return
        queue = self._waiting.setdefault(edge.target, [])
        waiting = next((entry for entry in queue if entry.inputs[edge.input] is None), None)
        if waiting is None:
            waiting = _Waiting(step.inputs)
            queue.append(waiting)
        waiting.inputs[edge.input] = items
        waiting.sources[edge.input] = source
        if None not in waiting.inputs:
            queue.remove(waiting)
            self._put(step, waiting)

    def _release(self) -> bool:
        """Nothing else can run: the first node that waits for inputs in vain runs with what it has, if it has items."""
        while waiting := [name for name, queue in self._waiting.items() if queue]:
            free = [name for name in waiting if not self.plan[name].ancestors.intersection(waiting)]
            name = (free or waiting)[0]
            entry = self._waiting[name].pop(0)
            if any(entry.inputs):
                self._put(self.plan[name], entry)
                return True
        return False

    def _put(self, step: Step, waiting: _Waiting) -> None:
        self._next.appendleft((step, [items or [] for items in waiting.inputs], waiting.sources, None))

    def begin_record(self, name: str, connection: str, inputs: list[list[dict[str, Any]]]) -> NodeRun:
        if connection == ConnectionType.MAIN:
            index = self._runs[name] - 1
        else:
            index = self._runs[name]
            self._runs[name] += 1
        record = NodeRun(name, index, self.services.clock(), connection=connection, inputs=inputs)
        self.run_data.append(record)
        if self.hooks.node_started is not None:
            self.hooks.node_started(record)
        return record

    def end_record(self, record: NodeRun, failure: ConvoqError | None = None) -> None:
        record.took_ms = max(0.0, (self.services.clock() - record.started) * 1000)
        if failure is not None:
            record.error = {"code": failure.code, "message": failure.message}
        if self.hooks.node_finished is not None:
            self.hooks.node_finished(record)


def _passed(items: Sequence[Item]) -> list[Item]:
    return [Item(item.json, item.binary, index) for index, item in enumerate(items)]


def _error_outputs(executed: Executed, message: str) -> list[list[Item]]:
    """One item for each that the node was given; on the error output it keeps what it was."""
    node_type = cast(MainNode[Any], executed.step.type)
    items = executed.inputs[0]
    if executed.step.node.on_error == "continueRegularOutput":
        return [[Item({"error": message}, paired_item=index) for index in range(len(items))]]
    failed = [Item({**item.json, "error": message}, item.binary, index) for index, item in enumerate(items)]
    return [*([] for _ in range(node_type.outputs)), failed]
