"""A run as it stands: what has run, what it gave, and what is noted of it for people."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Any

from convoq.contract.connections import ConnectionType
from convoq.contract.execution import ExecutionInfo
from convoq.contract.items import Item
from convoq.contract.run_data import NodeRun
from convoq.contract.services import Services
from convoq.engine.hooks import Hooks
from convoq.engine.plan import Step
from convoq.engine.run_data import run_data_json
from convoq.engine.secrets import Secrets
from convoq.engine.workflow import Workflow
from convoq.errors import ConvoqError, NodeFailed

CANCELLED = NodeFailed("cancelled")


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
    record: NodeRun | None = None

    @property
    def name(self) -> str:
        return self.step.node.name


CallWorkflow = Callable[[str | Mapping[str, Any], Sequence[Item]], Awaitable[Sequence[Item]]]


class RunState:
    """`deadline` is in the event loop's time; `call` runs another workflow for a node of this one."""

    def __init__(
        self,
        workflow: Workflow,
        info: ExecutionInfo,
        services: Services,
        hooks: Hooks,
        call: CallWorkflow,
        deadline: float = inf,
    ) -> None:
        self.workflow = workflow
        self.plan = workflow.plan
        self.info = info
        self.services = services
        self.hooks = hooks
        self.call = call
        self.deadline = deadline
        self.secrets = Secrets()
        self.run_data: list[NodeRun] = []
        self.history: list[Executed] = []
        self.runs: Counter[str] = Counter()
        self.kept: dict[str, dict[str, Any]] = {}
        self._by_name: dict[str, list[Executed]] = {}

    def last_run(self, name: str) -> Executed | None:
        found = self._by_name.get(name)
        return found[-1] if found else None

    def run_of(self, name: str, index: int) -> Executed | None:
        """The run of that node with that index, where it has ended."""
        found = self._by_name.get(name, ())
        if index < len(found) and found[index].run_index == index:  # it is further on only where runs had failed
            return found[index]
        return next((one for one in found if one.run_index == index), None)

    def done(self, executed: Executed) -> None:
        self.history.append(executed)
        self._by_name.setdefault(executed.name, []).append(executed)

    def now_ms(self) -> int:
        return int(self.services.clock() * 1000)

    def begin_record(self, name: str, connection: str, inputs: list[list[dict[str, Any]]]) -> NodeRun:
        if connection == ConnectionType.MAIN:
            index = self.runs[name] - 1
        else:
            index = self.runs[name]
            self.runs[name] += 1
        record = NodeRun(name, index, self.services.clock(), connection=connection, inputs=inputs)
        self.run_data.append(record)
        if self.hooks.node_started is not None:
            self.hooks.node_started(record)
        return record

    def end_record(self, record: NodeRun, failure: ConvoqError | None = None) -> None:
        record.took_ms = max(0.0, (self.services.clock() - record.started) * 1000)
        if failure is not None:
            record.error = {"code": failure.code, "message": self.secrets.mask(failure.message)}
        if self.hooks.node_finished is not None:
            self.hooks.node_finished(record)

    def run_data_json(self) -> bytes:
        """`run_data` as JSON without secrets, within the setting `run_data_max_bytes`."""
        return self.secrets.mask_json(run_data_json(self.run_data, self.services.settings.run_data_max_bytes))


def named(error: Exception, node: str) -> ConvoqError:
    """The failure as one of ours, naming the node where it does not name one yet."""
    if isinstance(error, ConvoqError):
        error.details.setdefault("node", node)
        return error
    failure = NodeFailed(f"{node}: {type(error).__name__}: {error}", node=node)
    failure.__cause__ = error
    return failure
