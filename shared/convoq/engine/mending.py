"""Files as people have them: what has a wrong shape is dropped, with a fault that says so, and the rest is kept."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from convoq.contract.chat import ChatTriggerParameters
from convoq.contract.definition import Name, Node
from convoq.engine.faults import shape_faults
from convoq.errors import Fault

MAX_NODES = 1000
STICKY_NOTE = "n8n-nodes-base.stickyNote"
_ROUNDS = 20


class File(BaseModel):
    model_config = ConfigDict(extra="ignore", coerce_numbers_to_str=True)

    id: Annotated[str, Field(max_length=200, pattern=r"^[\w.~-]*$")] | None = None
    name: Name | None = None
    active: bool | None = None
    nodes: Annotated[list[Any], Field(max_length=MAX_NODES)]
    connections: dict[str, Any] | None = None
    settings: dict[str, Any] | None = None


def read_file(data: Mapping[str, Any], faults: list[Fault]) -> File | None:
    """None where there are no nodes that could be read."""
    given = dict(data)
    for _ in range(_ROUNDS):
        try:
            return File.model_validate(given)
        except ValidationError as error:
            faults += shape_faults("", error)
            bad = {str(detail["loc"][0]) for detail in error.errors()}
            if "nodes" in bad:
                return None
            for name in bad:
                given.pop(name, None)
    return None


def read_nodes(raw: list[Any], faults: list[Fault]) -> tuple[dict[str, Node], set[str]]:
    """The nodes by name, and the names of the sticky notes, which are none."""
    nodes: dict[str, Node] = {}
    notes: set[str] = set()
    for index, entry in enumerate(raw):
        if isinstance(entry, Mapping) and entry.get("type") == STICKY_NOTE:
            notes.add(str(entry.get("name")))
            continue
        node = _read_node(entry, index, nodes, faults)
        if node is not None:
            nodes[node.name] = node
    return nodes, notes


def _read_node(entry: Any, index: int, known: Mapping[str, Node], faults: list[Fault]) -> Node | None:
    name = entry.get("name") if isinstance(entry, Mapping) else None
    label = name[:200] if isinstance(name, str) and name else f"nodes.{index}"
    given = dict(entry) if isinstance(entry, Mapping) else entry
    for _ in range(_ROUNDS):
        try:
            node = Node.model_validate(given)
            break
        except ValidationError as error:
            faults += shape_faults(label, error)
            bad = {str(detail["loc"][0]) for detail in error.errors() if detail["loc"]}
            if not isinstance(given, dict) or "type" in bad:
                return None
            for key in bad:
                given.pop(key, None)
            if "name" in bad:
                given["name"] = _free(str(given.get("type", "node")).rpartition(".")[2] or "node", known)
    else:
        return None
    if node.name in known:
        faults.append(Fault(node.name, "name", "another node has the same name"))
        node = node.model_copy(update={"name": _free(node.name, known)})
    return node


def _free(name: str, known: Mapping[str, Node]) -> str:
    numbered: Iterator[str] = (name[:190] + (f" {number}" if number else "") for number in range(MAX_NODES + 1))
    return next(one for one in numbered if one not in known)


def read_trigger(node: Node, faults: list[Fault]) -> ChatTriggerParameters:
    """An expression is no way out here: a trigger is asked before anything runs."""
    given: Any = node.parameters
    for _ in range(_ROUNDS):
        try:
            return ChatTriggerParameters.model_validate(given, context={"version": node.type_version})
        except ValidationError as error:
            faults += [fault for fault in shape_faults(node.name, error) if fault not in faults]
            for detail in error.errors():
                given = _without(given, [str(part) for part in detail["loc"]])
    return ChatTriggerParameters()


def _without(value: Any, path: list[str]) -> Any:
    if not isinstance(value, Mapping) or not path or path[0] not in value:
        return value
    if len(path) == 1 or not isinstance(value[path[0]], Mapping):
        return {key: inner for key, inner in value.items() if key != path[0]}
    return {**value, path[0]: _without(value[path[0]], path[1:])}
