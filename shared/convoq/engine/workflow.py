"""The definition of a workflow. n8n's JSON is the native format.

    {"id", "name", "active", "settings",
     "nodes": [{"id", "name", "type", "typeVersion", "position": [x, y], "parameters": {…}, …}],
     "connections": {source: {type: [[{"node", "type", "index"}, …], …one list an output]}}}

Of an `ai_*` connection the sub-node is the source.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from convoq.contract.chat import ChatTrigger, ChatTriggerParameters
from convoq.contract.connections import ConnectionType
from convoq.contract.definition import Connection, Name, Node
from convoq.contract.node import AnyNode, MainNode
from convoq.engine.faults import (
    MAX_CHARS,
    json_fault,
    path_fault,
    read_connections,
    shape_faults,
    type_faults,
    wiring_faults,
    wiring_warnings,
)
from convoq.engine.plan import Step, make_plan
from convoq.errors import Fault, InvalidWorkflow

MAX_NODES = 1000
MAX_FAULTS = 200
STICKY_NOTE = "n8n-nodes-base.stickyNote"

Registry = Mapping[str, AnyNode]


@dataclass(frozen=True, slots=True)
class ChatTriggerInfo:
    """Where a chat comes in: `path` is the part of the URL after `/webhook/`."""

    node: Node
    path: str
    parameters: ChatTriggerParameters


class _File(BaseModel):
    model_config = ConfigDict(extra="ignore", coerce_numbers_to_str=True)

    id: Annotated[str, Field(max_length=200, pattern=r"^[\w.~-]*$")] | None = None
    name: Name | None = None
    active: bool | None = None
    nodes: Annotated[list[Any], Field(max_length=MAX_NODES)]
    connections: dict[str, Any] | None = None
    settings: dict[str, Any] | None = None


@dataclass(frozen=True)
class Workflow:
    """A sound workflow. `definition` is the file as it was; `version` names its content; `types` is by node name."""

    id: str
    name: str
    active: bool
    nodes: Mapping[str, Node]
    connections: tuple[Connection, ...]
    settings: Mapping[str, Any]
    version: str
    definition: Mapping[str, Any] = field(repr=False)
    types: Mapping[str, AnyNode] = field(repr=False)
    triggers: tuple[ChatTriggerInfo, ...] = field(repr=False)
    warnings: tuple[str, ...] = field(default=(), repr=False)
    """What works otherwise than its author may expect, for people to read at import."""

    def chat_triggers(self) -> list[ChatTriggerInfo]:
        """The enabled ones, in the order of the file."""
        return list(self.triggers)

    def called_by(self) -> str | None:
        """The enabled trigger with which a call by another workflow begins."""
        for name, node in self.nodes.items():
            node_type = self.types[name]
            if isinstance(node_type, MainNode) and node_type.called_by_workflows and not node.disabled:
                return name
        return None

    def sub_nodes(self, name: str, kind: ConnectionType) -> list[Node]:
        """The enabled sub-nodes connected to a node, by input index, then from top to bottom and left to right."""
        return [self.nodes[source] for source in self._suppliers.get((name, kind), ())]

    @cached_property
    def plan(self) -> Mapping[str, Step]:
        return make_plan(self.nodes, self.types, self.connections)

    @cached_property
    def _suppliers(self) -> dict[tuple[str, ConnectionType], list[str]]:
        found: dict[tuple[str, ConnectionType], list[tuple[tuple[float, ...], str]]] = {}
        for edge in self.connections:
            node = self.nodes[edge.source]
            if edge.kind is not ConnectionType.MAIN and not node.disabled:
                x, y = node.position
                found.setdefault((edge.target, edge.kind), []).append(((edge.input, y, x), node.name))
        return {key: list(dict.fromkeys(name for _, name in sorted(ends))) for key, ends in found.items()}


def parse_workflow_text(text: str | bytes, *, source: str, registry: Registry) -> Workflow:
    """As `parse_workflow`, from the text of a file."""
    try:
        if len(text) > 4 * MAX_CHARS:
            raise ValueError(f"longer than {4 * MAX_CHARS} characters")
        decoded = text.decode("utf-8-sig") if isinstance(text, bytes) else text
        data = json.loads(decoded)
    except RecursionError:
        raise InvalidWorkflow(source, [Fault("", "", "nested too deeply")]) from None
    except ValueError as error:
        raise InvalidWorkflow(source, [Fault("", "", f"not JSON: {error}")]) from None
    return parse_workflow(data, source=source, registry=registry)


def parse_workflow(data: object, *, source: str, registry: Registry) -> Workflow:
    """The workflow that `data` (decoded JSON) describes. `source` says in messages where it came from.

    Raises `InvalidWorkflow` with all faults at once.
    """
    if (unfit := json_fault(data)) is not None:
        raise InvalidWorkflow(source, [unfit])
    if not isinstance(data, dict):
        raise InvalidWorkflow(source, [Fault("", "", f"should be an object, not a {type(data).__name__}")])
    given = data.get("name")
    label = given if isinstance(given, str) and given else source
    try:
        file = _File.model_validate(data)
    except ValidationError as error:
        raise InvalidWorkflow(label, list(shape_faults("", error))) from None
    faults: list[Fault] = []
    nodes, notes = _read_nodes(file.nodes, faults)
    types = {name: registry[node.type] for name, node in nodes.items() if node.type in registry}
    for node in nodes.values():
        faults += type_faults(node, types.get(node.name))
    connections: list[Connection] = []
    dangling: list[str] = []
    faults += read_connections(file.connections or {}, nodes, notes, connections, dangling)
    faults += wiring_faults(nodes, types, connections)
    content = json.dumps([label, file.active is not False, file.nodes, file.connections, file.settings], sort_keys=True)
    version = hashlib.sha256(content.encode()).hexdigest()[:16]
    workflow_id = file.id or _made_id(nodes, version)
    triggers = _read_triggers(workflow_id, nodes, types, faults)
    if faults:
        if len(faults) > MAX_FAULTS:
            faults[MAX_FAULTS:] = [Fault("", "", f"and {len(faults) - MAX_FAULTS} more faults")]
        raise InvalidWorkflow(label, faults)
    return Workflow(
        id=workflow_id,
        name=label,
        active=file.active is not False,
        nodes=nodes,
        connections=tuple(connections),
        settings=file.settings or {},
        version=version,
        definition=data,
        types=types,
        triggers=tuple(triggers),
        warnings=(*_warnings(nodes, types), *wiring_warnings(nodes, types, connections), *dangling[:MAX_FAULTS]),
    )


def _warnings(nodes: Mapping[str, Node], types: Mapping[str, AnyNode]) -> Iterator[str]:
    for name, node in nodes.items():
        if not node.disabled and (said := types[name].warn(node)):
            yield f"{name!r}: {said}"


def _read_nodes(raw: list[Any], faults: list[Fault]) -> tuple[dict[str, Node], set[str]]:
    """The nodes by name, and the names of the sticky notes, which are none."""
    nodes: dict[str, Node] = {}
    notes: set[str] = set()
    for index, entry in enumerate(raw):
        given = entry.get("name") if isinstance(entry, dict) else None
        if isinstance(entry, dict) and entry.get("type") == STICKY_NOTE:
            notes.add(str(given))
            continue
        try:
            node = Node.model_validate(entry)
        except ValidationError as error:
            label = given if isinstance(given, str) and given else f"nodes.{index}"
            faults += shape_faults(label[:200], error)
            continue
        if node.name in nodes:
            faults.append(Fault(node.name, "name", "another node has the same name"))
        nodes[node.name] = node
    return nodes, notes


def _made_id(nodes: Mapping[str, Node], version: str) -> str:
    """Exports often have no id. A chat trigger's own stays the same while the workflow is edited."""
    for node in nodes.values():
        if node.webhook_id and path_fault(node, node.webhook_id, "") is None and "/" not in node.webhook_id:
            return node.webhook_id
    return version


def _read_triggers(
    workflow_id: str, nodes: Mapping[str, Node], types: Mapping[str, AnyNode], faults: list[Fault]
) -> list[ChatTriggerInfo]:
    taken: dict[str, str] = {}
    found: list[ChatTriggerInfo] = []
    for name, node in nodes.items():
        if node.disabled or not isinstance(types.get(name), ChatTrigger):
            continue
        try:
            parameters = ChatTriggerParameters.model_validate(node.parameters)
        except ValidationError as error:
            # An expression is no way out here: a trigger is asked before anything runs.
            faults += [fault for fault in shape_faults(name, error) if fault not in faults]
            continue
        own = parameters.path.strip("/")
        path = own or node.webhook_id or f"{workflow_id}/{_slug(name)}"
        if own.startswith("="):
            faults.append(Fault(name, "path", "cannot be an expression: it is needed before anything runs"))
        elif (bad := path_fault(node, path, "path" if own else "webhookId")) is not None:
            faults.append(bad)
        elif path in taken:
            faults.append(Fault(name, "path", f"{path!r} is also the path of {taken[path]!r}"))
        taken[path] = name
        found.append(ChatTriggerInfo(node, path, parameters))
    return found


def _slug(name: str) -> str:
    return re.sub(r"\W+", "-", name.lower()).strip("-")[:100] or "chat"
