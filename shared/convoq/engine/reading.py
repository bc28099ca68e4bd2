"""Reading a workflow from its file.

Nobody's file is refused for what no execution may ever reach: a node that cannot run gets a fault, and fails when it is
reached. Strictly read, every fault counts.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping

from convoq.contract.chat import ChatTrigger
from convoq.contract.connections import ConnectionType
from convoq.contract.definition import Connection, Node
from convoq.contract.node import AnyNode, MainNode, SubNode
from convoq.contract.node_tool import NodeTool
from convoq.engine.faults import (
    MAX_CHARS,
    json_fault,
    missing_suppliers,
    path_fault,
    read_connections,
    suppliers_in_circle,
    type_faults,
    unsound,
    wiring_warnings,
)
from convoq.engine.mending import read_file, read_nodes, read_trigger
from convoq.engine.unsupported import UnsupportedNode, UnsupportedSubNode
from convoq.engine.workflow import ChatTriggerInfo, Registry, Workflow
from convoq.errors import Fault, InvalidWorkflow

MAX_FAULTS = 200


def parse_workflow_text(text: str | bytes, *, source: str, registry: Registry, strict: bool = False) -> Workflow:
    """As `parse_workflow`, from the text of a file."""
    return parse_workflow(decoded(text, source), source=source, registry=registry, strict=strict)


def decoded(text: str | bytes, source: str) -> object:
    """The JSON of a file. Raises `InvalidWorkflow`."""
    try:
        if len(text) > 4 * MAX_CHARS:
            raise ValueError(f"longer than {4 * MAX_CHARS} characters")
        return json.loads(text.decode("utf-8-sig") if isinstance(text, bytes) else text)
    except RecursionError:
        raise InvalidWorkflow(source, [Fault("", "", "nested too deeply")]) from None
    except ValueError as error:
        raise InvalidWorkflow(source, [Fault("", "", f"not JSON: {error}")]) from None


def parse_workflow(data: object, *, source: str, registry: Registry, strict: bool = False) -> Workflow:
    """The workflow that `data` (decoded JSON) describes. `source` says in messages where it came from.

    Raises `InvalidWorkflow` where nothing can be made of it, or, if `strict`, with all faults at once.
    """
    if (unfit := json_fault(data)) is not None:
        raise InvalidWorkflow(source, [unfit])
    if not isinstance(data, dict):
        raise InvalidWorkflow(source, [Fault("", "", f"should be an object, not a {type(data).__name__}")])
    given = data.get("name")
    label = given if isinstance(given, str) and given else source
    shape: list[Fault] = []
    file = read_file(data, shape)
    if file is None:
        raise InvalidWorkflow(label, shape)
    nodes, notes = read_nodes(file.nodes, shape)
    drawn: list[Connection] = []
    dangling: list[str] = []
    wiring = list(read_connections(file.connections or {}, nodes, notes, drawn, dangling))
    known = _known(nodes, drawn, registry)
    of_nodes = [fault for node in nodes.values() for fault in type_faults(node, known.get(node.name))]
    connections: list[Connection] = []
    for edge in drawn:
        if (bad := unsound(edge, known)) is None:
            connections.append(edge)
        else:
            wiring.append(bad)
    of_nodes += missing_suppliers(nodes, known, drawn)
    circle = list(suppliers_in_circle(drawn))
    of_nodes += circle
    content = json.dumps([label, file.active is not False, file.nodes, file.connections, file.settings], sort_keys=True)
    version = hashlib.sha256(content.encode()).hexdigest()[:16]
    workflow_id = file.id or _made_id(nodes, version)
    triggers = list(_triggers(workflow_id, nodes, known, shape, of_nodes))
    if strict and (faults := [*shape, *of_nodes, *wiring]):
        if len(faults) > MAX_FAULTS:
            faults[MAX_FAULTS:] = [Fault("", "", f"and {len(faults) - MAX_FAULTS} more faults")]
        raise InvalidWorkflow(label, faults)
    by_node: dict[str, list[Fault]] = {}
    for fault in of_nodes:
        by_node.setdefault(fault.node, []).append(fault)
    types = {name: _type_of(name, known.get(name), by_node.get(name, ()), circle, connections) for name in nodes}
    warnings = (
        *map(str, (*shape, *wiring)),
        *_warnings(nodes, types),
        *wiring_warnings(nodes, types, connections),
        *dangling,
    )
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
        warnings=warnings[:MAX_FAULTS],
        faults=by_node,
        left_out=frozenset(_tools_to_leave_out(nodes, by_node, connections)),
    )


def _known(nodes: Mapping[str, Node], connections: Iterable[Connection], registry: Registry) -> dict[str, AnyNode]:
    """The types that there are; of a main node that is connected as a tool, what makes one of it."""
    tools = {edge.source for edge in connections if edge.kind is ConnectionType.TOOL}
    known: dict[str, AnyNode] = {}
    for name, node in nodes.items():
        if node.type in registry:
            found = registry[node.type]
            as_tool = name in tools and isinstance(found, MainNode) and not isinstance(found, SubNode)
            known[name] = NodeTool(found) if as_tool else found  # type: ignore[arg-type]  # it is a main node
    return known


def _type_of(
    name: str,
    found: AnyNode | None,
    faults: Iterable[Fault],
    circle: Iterable[Fault],
    connections: Iterable[Connection],
) -> AnyNode:
    """The type, or what stands in for one that is not known, too old, or would supply itself without end."""
    said = [fault for fault in faults if fault.parameter in ("type", "typeVersion")]
    said += [fault for fault in circle if fault.node == name]
    if found is not None and not said:
        return found
    reason = said[0].message if said else "cannot run"
    kind = next((edge.kind for edge in connections if edge.source == name and edge.kind != ConnectionType.MAIN), None)
    return UnsupportedNode(reason) if kind is None else UnsupportedSubNode(reason, kind)


def _tools_to_leave_out(
    nodes: Mapping[str, Node], faults: Mapping[str, object], connections: Iterable[Connection]
) -> Iterator[str]:
    """Tools that cannot run, by themselves or for want of what supplies them."""
    suppliers: dict[str, list[Connection]] = {}
    tools = set()
    for edge in connections:
        if edge.kind is ConnectionType.TOOL:
            tools.add(edge.source)
        if edge.kind is not ConnectionType.MAIN:
            suppliers.setdefault(edge.target, []).append(edge)

    def broken(name: str, seen: frozenset[str]) -> bool:
        return name in faults or any(
            edge.kind is not ConnectionType.TOOL
            and edge.source not in seen
            and not nodes[edge.source].disabled
            and broken(edge.source, seen | {name})
            for edge in suppliers.get(name, ())
        )

    return (name for name in tools if broken(name, frozenset()))


def _warnings(nodes: Mapping[str, Node], types: Mapping[str, AnyNode]) -> Iterator[str]:
    for name, node in nodes.items():
        if node.disabled:
            continue
        node_type = types[name]
        if said := node_type.warn(node):
            yield f"{name!r}: {said}"
        if node.type_version > node_type.versions[1]:
            yield f"{name!r}: version {node.type_version:g} is newer than what is known, {node_type.versions[1]:g}"
        unknown = sorted(node_type.parameters_class.unknown(node.parameters))
        if unknown and not isinstance(node_type, UnsupportedNode | UnsupportedSubNode):
            yield f"{name!r}: unknown parameters are ignored: {', '.join(unknown)[:200]}"


def _made_id(nodes: Mapping[str, Node], version: str) -> str:
    """Exports often have no id. A chat trigger's own stays the same while the workflow is edited."""
    for node in nodes.values():
        if node.webhook_id and path_fault(node, node.webhook_id, "") is None and "/" not in node.webhook_id:
            return node.webhook_id
    return version


def _triggers(
    workflow_id: str,
    nodes: Mapping[str, Node],
    types: Mapping[str, AnyNode],
    shape: list[Fault],
    of_nodes: list[Fault],
) -> Iterator[ChatTriggerInfo]:
    taken: dict[str, str] = {}
    for name, node in nodes.items():
        if node.disabled or not isinstance(types.get(name), ChatTrigger):
            continue
        known = [fault for fault in of_nodes if fault.node == name]
        of_nodes[:] = [fault for fault in of_nodes if fault.node != name or fault.parameter == "typeVersion"]
        found: list[Fault] = []
        parameters = read_trigger(node, found)
        shape += known + [fault for fault in found if fault not in known]
        own = parameters.path.strip("/")
        made = f"{workflow_id}/{_slug(name)}"
        path = own or node.webhook_id or made
        if own.startswith("="):
            shape.append(Fault(name, "path", "cannot be an expression: it is needed before anything runs"))
            path = made
        elif (bad := path_fault(node, path, "path" if own else "webhookId")) is not None:
            shape.append(bad)
            path = made
        elif path in taken:
            shape.append(Fault(name, "path", f"{path!r} is also the path of {taken[path]!r}"))
            path = made
        taken[path] = name
        yield ChatTriggerInfo(node, path, parameters)


def _slug(name: str) -> str:
    return re.sub(r"\W+", "-", name.lower()).strip("-")[:100] or "chat"
