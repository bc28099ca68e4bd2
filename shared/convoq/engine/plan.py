"""A workflow made ready to run: what the runner would else work out in every execution."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from convoq.contract.connections import ConnectionType
from convoq.contract.definition import Connection, Node
from convoq.contract.node import AnyNode, MainNode
from convoq.contract.parameters import Parameters
from convoq.engine.order import Order
from convoq.expressions.evaluate import has_expression


@dataclass(slots=True)
class Step:
    """A node in its place.

    `edges` are its main connections, in the order in which they are followed. `inputs` counts the main inputs up to the
    last one connected; `insists` says that it does not run unless each of them was given something. `ancestors` (of a
    node with several inputs) are all that can lead to it. `reading` is what the reading of its parameters is told in a
    run. `fixed` keeps the parsed parameters where no expression is in them,
    for all executions.
    """

    node: Node
    type: AnyNode
    edges: tuple[Connection, ...]
    inputs: int
    insists: bool
    ancestors: frozenset[str]
    dynamic: bool
    reading: dict[str, Any]
    fixed: Parameters | None = None


def make_plan(
    nodes: Mapping[str, Node], types: Mapping[str, AnyNode], connections: Iterable[Connection], order: Order
) -> dict[str, Step]:
    outgoing: dict[str, list[Connection]] = {name: [] for name in nodes}
    incoming: dict[str, list[Connection]] = {name: [] for name in nodes}
    for edge in connections:
        if edge.kind is ConnectionType.MAIN:
            outgoing[edge.source].append(edge)
            incoming[edge.target].append(edge)

    plan = {}
    for name, node in nodes.items():
        inputs = max((edge.input + 1 for edge in incoming[name]), default=1)
        node_type = types[name]
        plan[name] = Step(
            node=node,
            type=node_type,
            edges=order.followed(outgoing[name], nodes),
            inputs=inputs,
            insists=order.may_insist and isinstance(node_type, MainNode) and node_type.needs_all_inputs(node),
            ancestors=_ancestors(name, incoming) if inputs > 1 else frozenset(),
            dynamic=has_expression(node.parameters),
            reading={"version": node.type_version, "running": True},
        )
    return plan


def _ancestors(name: str, incoming: Mapping[str, list[Connection]]) -> frozenset[str]:
    seen: set[str] = set()
    waiting = [name]
    while waiting:
        for edge in incoming[waiting.pop()]:
            if edge.source not in seen:
                seen.add(edge.source)
                waiting.append(edge.source)
    return frozenset(seen - {name})
