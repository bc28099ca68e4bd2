"""What the expressions of one node see on one item."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

from convoq.contract.definition import Node
from convoq.contract.execution import ExecutionInfo
from convoq.contract.items import Item, PairedItem, origins
from convoq.engine.state import Executed, RunState
from convoq.engine.workflow import Workflow
from convoq.errors import ExpressionFailed
from convoq.expressions.sandbox import Sandbox

NOTHING: Mapping[str, Any] = {}


class ItemScope:
    """`from_ai` are the arguments that a model gave, where the node runs as a tool; `extra` are further names."""

    __slots__ = ("_executed", "_state", "extra", "from_ai", "item_index", "node_name")

    def __init__(
        self,
        state: RunState,
        node_name: str,
        executed: Executed,
        item_index: int,
        from_ai: Mapping[str, Any] | None = None,
        extra: Mapping[str, Any] = NOTHING,
    ) -> None:
        self._state = state
        self._executed = executed
        self.node_name = node_name
        self.item_index = item_index
        self.from_ai = from_ai
        self.extra = extra

    @property
    def items(self) -> Sequence[Item]:
        return self._executed.inputs[0]

    @property
    def inputs(self) -> Sequence[Sequence[Item]]:
        return self._executed.inputs

    @property
    def run_index(self) -> int:
        return self._executed.run_index

    @property
    def execution(self) -> ExecutionInfo:
        return self._state.info

    @property
    def workflow(self) -> Workflow:
        return self._state.workflow

    @property
    def sandbox(self) -> Sandbox:
        return self._state.services.part(Sandbox)

    @property
    def timezone(self) -> str:
        named = self._state.workflow.settings.get("timezone")
        return named if isinstance(named, str) and named != "DEFAULT" else self._state.services.settings.timezone

    @property
    def variables(self) -> Mapping[str, str]:
        return self._state.services.settings.variables

    @property
    def environment(self) -> Mapping[str, str] | None:
        return os.environ if self._state.services.settings.expressions_see_env else None

    @property
    def resume_url(self) -> str:
        return ""

    @property
    def previous(self) -> tuple[str, int, int] | None:
        """Where the items came from: node, output, run."""
        source = self._executed.sources[0]
        return None if source is None else (source[0].name, source[1], source[0].run_index)

    def at(self, item_index: int) -> ItemScope:
        return ItemScope(self._state, self.node_name, self._executed, item_index, self.from_ai, self.extra)

    def last_run_index(self, name: str) -> int:
        self._known(name)
        found = self._state.last_run(name)
        return -1 if found is None else found.run_index

    def node_parameters(self, name: str | None) -> Mapping[str, Any]:
        return self._known(self.node_name if name is None else name).parameters

    def node_kept(self, name: str | None) -> Mapping[str, Any]:
        return self._state.kept.get(name or self.node_name, {})

    def node_items(self, name: str, output: int | None = None, run: int | None = None) -> Sequence[Item]:
        """Of the output that leads here, or else the first, unless one is named; of the last run, or of run `run`."""
        found = self._last_run(name)
        if run is not None and run >= 0:
            found = self._state.run_of(name, run) or self._missing(name, run)
        taken = output
        if taken is None:
            taken = next((output for executed, output in self._way_back() if executed.name == name), 0)
        if 0 <= taken < len(found.outputs):
            return found.outputs[taken]
        if output is None:
            return ()
        raise ExpressionFailed(f"node {name!r} has no output {output}")

    def node_item(self, name: str) -> Item | None:
        """The item of that node that this one came from. Raises `ExpressionFailed` where it came from several."""
        self._last_run(name)
        waiting = deque([(self._executed.sources[0], self.item_index)])
        seen = set()
        ancestors = []
        while waiting:
            source, index = waiting.popleft()
            if source is None or (id(source[0]), source[1], index) in seen:
                continue
            executed, output = source
            seen.add((id(executed), output, index))
            items = executed.outputs[output]
            if index >= len(items):
                continue
            if executed.name == name:
                ancestors.append(items[index])
                continue
            for origin in _origins(executed, items, index):
                given = executed if origin.run is None else self._state.run_of(executed.name, origin.run)
                if given is not None and origin.input < len(given.sources):
                    waiting.append((given.sources[origin.input], origin.item))
        if len(ancestors) > 1:
            raise ExpressionFailed(
                f"item {self.item_index} was made of {len(ancestors)} items of {name!r}; take .first() or .last()"
            )
        if ancestors:
            return ancestors[0]
        found = list(self.node_items(name))
        if len(found) > 1:
            raise ExpressionFailed(
                f"which of the {len(found)} items of {name!r} belongs to item {self.item_index} is not known; "
                "take .first() or .last()"
            )
        return found[0] if found else None

    def _known(self, name: str) -> Node:
        if (found := self._state.workflow.nodes.get(name)) is None:
            raise ExpressionFailed(f"there is no node {name!r}")
        return found

    def _last_run(self, name: str) -> Executed:
        if (found := self._state.last_run(name)) is None:
            raise ExpressionFailed(f"node {self._known(name).name!r} has not run")
        return found

    def _missing(self, name: str, run: int) -> Executed:
        raise ExpressionFailed(f"node {name!r} has no run {run}")

    def _way_back(self) -> Sequence[tuple[Executed, int]]:
        """The runs that led here, the nearest first."""
        way: list[tuple[Executed, int]] = []
        waiting = deque(self._executed.sources)
        seen = set()
        while waiting:
            source = waiting.popleft()
            if source is not None and (id(source[0]), source[1]) not in seen:
                seen.add((id(source[0]), source[1]))
                way.append(source)
                waiting.extend(source[0].sources)
        return way


def _origins(executed: Executed, items: Sequence[Item], index: int) -> Sequence[PairedItem]:
    """The input items that an output item came from; n8n's guess where the node did not tell."""
    if found := origins(items[index].paired_item):
        return found
    given = len(executed.inputs[0])
    if given == 1:
        return (PairedItem(0),)
    return (PairedItem(index),) if given == len(items) else ()
