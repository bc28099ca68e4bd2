"""One node in a real run of a workflow: what it makes of items."""

from __future__ import annotations

import asyncio
from collections import ChainMap
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn, cast

from convoq.contract.items import Binary, Item, Outputs, PairedItem, origins
from convoq.contract.node import AnyNode
from convoq.contract.services import Services
from convoq.engine.hooks import Hooks
from convoq.engine.reading import parse_workflow
from convoq.engine.run import WorkflowRun
from convoq.errors import ConvoqError
from convoq.memory.local import LocalMemories
from convoq.nodes.registry import REGISTRY, by_type
from convoq.settings import Settings
from tests.engine.support import INFO, Start, node, workflow_json

TYPES = ChainMap(dict(by_type([Start])), cast(dict[str, AnyNode], REGISTRY))


@dataclass(frozen=True)
class File:
    """A file that an item comes with."""

    data: bytes
    mime_type: str = "text/plain"
    name: str = ""


@dataclass
class Ran:
    """What came of a node's run. `error` is what it failed with."""

    outputs: Outputs
    error: ConvoqError | None
    notes: list[str]
    services: Services = field(repr=False)

    @property
    def items(self) -> list[Item]:
        assert self.error is None, self.error
        return self.outputs[0]

    @property
    def json(self) -> list[dict[str, Any]]:
        return [item.json for item in self.items]

    @property
    def pairs(self) -> list[list[int]]:
        """For each item the input items it came from."""
        return [[origin.item for origin in origins(item.paired_item)] for item in self.items]

    def file(self, index: int = 0, name: str = "data") -> Binary:
        return (self.items[index].binary or {})[name]

    async def bytes_of(self, index: int = 0, name: str = "data") -> bytes:
        return await self.services.binaries.get(self.file(index, name))


def no_http() -> NoReturn:
    raise AssertionError("this node should not use the models' session")


async def arun_node(
    node_type: str,
    parameters: Mapping[str, Any],
    *items: Mapping[str, Any],
    version: float = 1,
    files: Mapping[str, File] | None = None,
    credentials: Mapping[str, Mapping[str, Any]] | None = None,
    parts: Iterable[object] = (),
    settings: Mapping[str, Any] | None = None,
    **rest: Any,
) -> Ran:
    """`files` come with every item; `rest` are the node's own settings (`onError`, …)."""

    async def credential(kind: str, reference: Mapping[str, Any]) -> Mapping[str, Any] | None:
        return (credentials or {}).get(kind)

    services = Services(Settings(**(settings or {})), LocalMemories(), no_http, credential=credential, parts=parts)
    binary = {
        name: await services.binaries.put(INFO.id, file.data, mime_type=file.mime_type, file_name=file.name)
        for name, file in (files or {}).items()
    }
    tried = node("Node", node_type, version=version, parameters=dict(parameters), **rest)
    definition = workflow_json([node("Start", "start"), tried], "Start > Node")
    workflow = parse_workflow(definition, source="test", registry=TYPES)
    run = WorkflowRun(workflow, INFO, services, Hooks(), sleep=_at_once)
    try:
        outcome = await run.start("Start", [Item(dict(item), binary or None) for item in items])
    finally:
        await services.close()
    ended = [executed for executed in run.state.history if executed.name == "Node"]
    notes = [note for record in run.run_data if record.node == "Node" for note in record.notes]
    return Ran(ended[-1].outputs if ended else [], outcome.error, notes, services)


async def _at_once(seconds: float) -> None:
    """Nobody waits in a test."""


def run_node(kind: str, parameters: Mapping[str, Any], *items: Mapping[str, Any], **rest: Any) -> Ran:
    return asyncio.run(arun_node(kind, parameters, *items, **rest))


def pairs(*indexes: int) -> list[PairedItem]:
    return [PairedItem(index) for index in indexes]
