"""What can be wrong in a workflow file, each thing as a `Fault` that names the node and the parameter."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from convoq.contract.connections import ConnectionType
from convoq.contract.definition import Connection, Node
from convoq.contract.node import AnyNode, MainNode, SubNode
from convoq.errors import Fault
from convoq.expressions.evaluate import has_expression

MAX_DEPTH = 100
MAX_VALUES = 200_000
MAX_CHARS = 4_000_000
MAX_INDEX = 99
_KINDS = frozenset(map(str, ConnectionType))
_OTHER_NAMES = {"link_memory": "ai_memory"}
"""Connection types as other editors call them."""
_SURROGATE = re.compile("[\ud800-\udfff]")
_PATH = re.compile(r"[\w.~:-]+(?:/[\w.~:-]+)*")


def json_fault(data: object) -> Fault | None:
    """Why `data` is no JSON that can be handled: a wrong type, too deep, too large. Never raises."""
    values = chars = 0
    waiting: list[tuple[object, int, str]] = [(data, 0, "")]
    while waiting:
        value, depth, path = waiting.pop()
        values += 1
        if depth > MAX_DEPTH:
            return Fault("", path, f"nested deeper than {MAX_DEPTH} levels")
        if isinstance(value, dict):
            for key, inner in value.items():
                if not isinstance(key, str):
                    return Fault("", path, f"a key is a {type(key).__name__}, not a string")
                waiting.append((key, depth, path))
                waiting.append((inner, depth + 1, f"{path}.{key[:50]}" if path else key[:50]))
        elif isinstance(value, list):
            waiting.extend((inner, depth + 1, f"{path}.{index}") for index, inner in enumerate(value))
        elif isinstance(value, str):
            chars += len(value)
            if _SURROGATE.search(value):
                return Fault("", path.encode("utf-8", "replace").decode(), "half of a surrogate pair is no text")
        elif isinstance(value, int | float):
            if not _is_finite(value):
                return Fault("", path, "not a finite number")
        elif value is not None:
            return Fault("", path, f"a {type(value).__name__} is no JSON value")
        if values + len(waiting) > 2 * MAX_VALUES or values > MAX_VALUES or chars > MAX_CHARS:
            return Fault("", "", f"larger than {MAX_VALUES} values or {MAX_CHARS} characters")
    return None


def _is_finite(value: int | float) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:
        return False


def shape_faults(node: str, error: ValidationError, prefix: str = "") -> Iterator[Fault]:
    for detail in error.errors(include_url=False, include_context=False):
        where = ".".join(map(str, detail["loc"]))
        yield Fault(node, f"{prefix}{where}", _said(detail))


def _said(detail: ErrorDetails) -> str:
    message = detail["msg"].removeprefix("Value error, ")
    shown = repr(detail["input"]) if isinstance(detail["input"], str | int | float | None) else ""
    return f"{message} (got {shown[:100]})" if shown and detail["type"] != "missing" else message


def type_faults(node: Node, node_type: AnyNode | None) -> Iterator[Fault]:
    """An unknown type or version, and parameters that its type does not take; expressions are known only in a run."""
    if node_type is None:
        yield Fault(node.name, "type", f"unknown node type {node.type!r}")
        return
    low, high = node_type.versions
    if node.type_version < low:
        span = f"{low:g}" if low == high else f"{low:g} to {high:g}"
        yield Fault(
            node.name, "typeVersion", f"version {node.type_version:g} of {node.type!r} is not supported ({span} is)"
        )
        return
    try:
        node_type.parameters_class.model_validate(node.parameters, context={"version": node.type_version})
    except ValidationError as error:
        for detail in error.errors(include_url=False, include_context=False):
            if not _is_dynamic(detail, node.parameters):
                yield Fault(node.name, ".".join(map(str, detail["loc"])), _said(detail))


def _is_dynamic(detail: ErrorDetails, parameters: Mapping[str, Any]) -> bool:
    if detail["type"] == "missing":
        return False
    value: Any = parameters
    for key in detail["loc"]:
        if isinstance(value, dict) and key in value:
            value = value[key]
        elif isinstance(value, list) and isinstance(key, int) and key < len(value):
            value = value[key]
    return has_expression(value)


def read_connections(
    raw: Mapping[str, Any],
    nodes: Mapping[str, Node],
    ignored: Iterable[str],
    found: list[Connection],
    warnings: list[str],
) -> Iterator[Fault]:
    """Put the connections of a file into `found`, as far as they are sound.

    Those of nodes that are not there are left out with a warning: n8n's editor leaves such behind, and runs them.
    """
    skip = frozenset(ignored)
    for source, kinds in raw.items():
        if source in skip:
            continue
        if source not in nodes:
            warnings.append(f"{source[:100]!r} is not there: its connections are left out")
            continue
        if not isinstance(kinds, dict):
            yield Fault(source, "connections", "should be an object {type: outputs}")
            continue
        for name, outputs in kinds.items():
            kind = _OTHER_NAMES.get(name, name)
            if kind not in _KINDS:
                yield Fault(source, "connections", f"unknown connection type {name!r}")
                continue
            if outputs is None:
                continue
            if not isinstance(outputs, list) or not all(isinstance(targets, list | None) for targets in outputs):
                yield Fault(source, f"connections.{kind}", "should be a list of lists, one for each output")
                continue
            for output, targets in enumerate(outputs):
                for position, target in enumerate(targets or ()):
                    if (message := _target_fault(target, kind)) is not None:
                        yield Fault(source, f"connections.{kind}.{output}.{position}", message)
                    elif target["node"] in nodes:
                        index = target.get("index", 0)
                        found.append(Connection(source, ConnectionType(kind), output, target["node"], index))
                    elif target["node"] not in skip:
                        warnings.append(f"{source!r} leads to {target['node'][:100]!r}, which is not there: left out")


def _target_fault(target: object, kind: str) -> str | None:
    if not isinstance(target, dict) or not isinstance(target.get("node"), str):
        return 'should be {"node": name, "type": …, "index": …}'
    arrives = target.get("type", kind)
    if arrives != kind and _OTHER_NAMES.get(str(arrives)) != kind:
        return f"leaves as {kind!r} but arrives as {str(target['type'])[:50]!r}"
    index = target.get("index", 0)
    if not isinstance(index, int) or isinstance(index, bool) or not 0 <= index <= MAX_INDEX:
        return f"the input index should be a number from 0 to {MAX_INDEX}, not {str(index)[:50]!r}"
    return None


def unsound(edge: Connection, types: Mapping[str, AnyNode]) -> Fault | None:
    """Why a connection cannot be followed. `types` is by node name and lacks the unknown ones."""
    kind, source, target = edge.kind, types.get(edge.source), types.get(edge.target)
    if kind is ConnectionType.MAIN:
        for name, end in ((edge.source, source), (edge.target, target)):
            if isinstance(end, SubNode) and not isinstance(end, MainNode):
                return Fault(name, "connections.main", "is a sub-node, it has no main connection")
    elif source is not None and (not isinstance(source, SubNode) or source.supplies != kind):
        return Fault(edge.source, f"connections.{kind}", f"does not supply {str(kind)!r}")
    elif target is not None and kind not in target.accepts:
        return Fault(edge.target, f"connections.{kind}", f"takes no {str(kind)!r}, which {edge.source!r} supplies")
    return None


def missing_suppliers(
    nodes: Mapping[str, Node], types: Mapping[str, AnyNode], connections: Iterable[Connection]
) -> Iterator[Fault]:
    given = {
        (edge.target, edge.kind)
        for edge in connections
        if edge.kind is not ConnectionType.MAIN and not nodes[edge.source].disabled
    }
    for name, node_type in types.items():
        for kind, required in node_type.accepts.items():
            if required and not nodes[name].disabled and (name, kind) not in given:
                yield Fault(name, f"connections.{kind}", f"needs an enabled sub-node connected as {str(kind)!r}")


def suppliers_in_circle(connections: Iterable[Connection]) -> Iterator[Fault]:
    consumers: dict[str, list[str]] = {}
    for edge in connections:
        if edge.kind is not ConnectionType.MAIN:
            consumers.setdefault(edge.source, []).append(edge.target)
    for name in _in_circle(consumers):
        yield Fault(name, "connections", "a sub-node that supplies itself, over a circle of connections")


def wiring_warnings(
    nodes: Mapping[str, Node], types: Mapping[str, AnyNode], connections: Iterable[Connection]
) -> Iterator[str]:
    """What is joined in a way that works, but hardly as it was meant."""
    edges = list(connections)
    tellers = [name for name, node_type in types.items() if node_type.tells_thread and not nodes[name].disabled]
    for consumer in dict.fromkeys(edge.target for edge in edges if edge.kind is ConnectionType.MEMORY):
        said = repr(nodes[consumer].parameters)
        given = {edge.source for edge in edges if edge.target == consumer and edge.kind is ConnectionType.MAIN}
        for name in tellers:
            if name in given or f"'{name}'" in said or f'"{name}"' in said:
                yield f"{consumer!r} is given the dialogue twice: by its memory and by {name!r}"


def _in_circle(consumers: Mapping[str, list[str]]) -> Iterator[str]:
    for start in consumers:
        seen: set[str] = set()
        waiting = list(consumers[start])
        while waiting:
            name = waiting.pop()
            if name == start:
                yield start
                break
            if name not in seen:
                seen.add(name)
                waiting.extend(consumers.get(name, ()))


def path_fault(node: Node, path: str, parameter: str) -> Fault | None:
    if len(path) <= 200 and _PATH.fullmatch(path) and not {".", ".."} & set(path.split("/")):
        return None
    return Fault(node.name, parameter, f"{path[:100]!r} is no path: letters, digits and . _ ~ : - between slashes")
