"""A parked run as bytes, so that it goes on in another process, after a restart of everything.

Only data: msgpack of JSON values. Each item is written once, however many runs refer to it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import msgpack
import msgspec

from convoq.contract.items import Binary, Item, PairedItem, origins
from convoq.contract.run_data import NodeRun
from convoq.contract.waiting import Wait
from convoq.engine.plan import Step
from convoq.engine.run import Due, PartialInputs, Source, WorkflowRun
from convoq.engine.state import Executed
from convoq.errors import ExecutionFailed

FORMAT = 2


def freeze(run: WorkflowRun) -> bytes:
    """Raises `ExecutionFailed` where no node of the run waits."""
    if run.parked is None:
        raise ExecutionFailed("no node of this execution waits")
    return _Writer(run).written()


def thaw(data: bytes, run: WorkflowRun) -> None:
    """Put what was frozen into a fresh run of the same workflow: then `resume` goes on.

    Raises `ExecutionFailed` where the workflow has changed so that a node that had run or waits is gone.
    """
    _Reader(msgpack.unpackb(data, strict_map_key=False), run).read()


class _Writer:
    def __init__(self, run: WorkflowRun) -> None:
        self._run = run
        self._items: dict[int, int] = {}
        self._written: list[Any] = []
        self._places = {id(executed): index for index, executed in enumerate(run.state.history)}

    def written(self) -> bytes:
        run, state = self._run, self._run.state
        assert run.parked is not None
        executed, wait = run.parked
        found = {
            "format": FORMAT,
            "history": [self._executed(one) for one in state.history],
            "parked": self._executed(executed),
            "wait": [wait.for_, wait.until, dict(wait.state)],
            "due": [
                [due.step.node.name, self._lists(due.inputs), self._sources(due.sources)]
                for due in run.due
                if due.supplied is None  # a memory's word on what it was used for: its consumer has told it by then
            ],
            "waiting": {
                name: [
                    [[None if items is None else self._list(items) for items in one.inputs], self._sources(one.sources)]
                    for one in queue
                ]
                for name, queue in run.waiting.items()
                if queue
            },
            "runs": dict(state.runs),
            "kept": state.kept,
            "run_data": [msgspec.to_builtins(record, enc_hook=str) for record in state.run_data],
            "record": next((at for at, one in enumerate(state.run_data) if one is executed.record), None),
        }
        found["items"] = self._written
        return bytes(msgpack.packb(found, default=str))

    def _executed(self, executed: Executed) -> list[Any]:
        sources = self._sources(executed.sources)
        return [executed.name, executed.run_index, self._lists(executed.inputs), sources, self._lists(executed.outputs)]

    def _sources(self, sources: Sequence[Source | None]) -> list[Any]:
        return [None if source is None else [self._places[id(source[0])], source[1]] for source in sources]

    def _lists(self, lists: Sequence[Sequence[Item]]) -> list[list[int]]:
        return [self._list(items) for items in lists]

    def _list(self, items: Sequence[Item]) -> list[int]:
        return [self._item(item) for item in items]

    def _item(self, item: Item) -> int:
        if (known := self._items.get(id(item))) is not None:
            return known
        binary = {name: msgspec.to_builtins(file) for name, file in (item.binary or {}).items()}
        self._written.append([item.json, binary, [list(origin) for origin in origins(item.paired_item)]])
        self._items[id(item)] = len(self._written) - 1
        return len(self._written) - 1


class _Reader:
    def __init__(self, data: dict[str, Any], run: WorkflowRun) -> None:
        if data.get("format") != FORMAT:
            raise ExecutionFailed("this execution was parked by another version of convoq")
        self._data = data
        self._run = run
        self._items = [
            Item(
                json,
                {name: msgspec.convert(file, Binary) for name, file in binary.items()} or None,
                [PairedItem(*origin) for origin in paired],
            )
            for json, binary, paired in data["items"]
        ]

    def read(self) -> None:
        data, run, state = self._data, self._run, self._run.state
        state.run_data.extend(msgspec.convert(record, NodeRun) for record in data["run_data"])
        state.runs = Counter(data["runs"])
        state.kept = data["kept"]
        for one in data["history"]:
            state.done(self._executed(one))
        executed = self._executed(data["parked"])
        executed.record = None if data["record"] is None else state.run_data[data["record"]]
        run.parked = (executed, Wait(data["wait"][0], data["wait"][1], data["wait"][2]))
        run.due.extend(
            Due(self._step(name), self._lists(inputs), self._sources(sources)) for name, inputs, sources in data["due"]
        )
        for name, queue in data["waiting"].items():
            for inputs, sources in queue:
                partial = PartialInputs(len(inputs))
                partial.inputs = [None if items is None else self._list(items) for items in inputs]
                partial.sources = self._sources(sources)
                run.waiting.setdefault(name, []).append(partial)

    def _executed(self, written: list[Any]) -> Executed:
        name, run_index, inputs, sources, outputs = written
        return Executed(self._step(name), run_index, self._lists(inputs), self._sources(sources), self._lists(outputs))

    def _step(self, name: str) -> Step:
        step = self._run.state.plan.get(name)
        if step is None:
            raise ExecutionFailed(f"the workflow was changed while this execution waited: node {name!r} is gone")
        return step

    def _sources(self, written: list[Any]) -> list[Source | None]:
        history = self._run.state.history
        return [None if source is None else (history[source[0]], source[1]) for source in written]

    def _lists(self, written: list[list[int]]) -> list[list[Item]]:
        return [self._list(items) for items in written]

    def _list(self, written: list[int]) -> list[Item]:
        return [self._items[index] for index in written]
