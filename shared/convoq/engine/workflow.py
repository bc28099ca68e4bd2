"""The definition of a workflow. n8n's JSON is the native format.

    {"id", "name", "active", "settings",
     "nodes": [{"id", "name", "type", "typeVersion", "position": [x, y], "parameters": {…}, …}],
     "connections": {source: {type: [[{"node", "type", "index"}, …], …one list an output]}}}

Of an `ai_*` connection the sub-node is the source. `convoq.engine.reading` reads it from a file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from convoq.contract.chat import ChatTriggerParameters
from convoq.contract.connections import ConnectionType
from convoq.contract.definition import Connection, Node
from convoq.contract.node import AnyNode, MainNode
from convoq.engine.order import Order, order_of
from convoq.engine.plan import Step, make_plan
from convoq.errors import Fault

Registry = Mapping[str, AnyNode]


@dataclass(frozen=True, slots=True)
class ChatTriggerInfo:
    """Where a chat comes in: `path` is the part of the URL after `/webhook/`."""

    node: Node
    path: str
    parameters: ChatTriggerParameters


@dataclass(frozen=True)
class Workflow:
    """A workflow that can be run, as far as its nodes can. `definition` is the file as it was; `version` names its
    content; `types` is by node name.

    `faults` tells of nodes that will fail when an execution reaches them; `left_out` are the tools among them, and
    those whose own sub-nodes are: an agent does without, and `faults` says why.
    """

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
    faults: Mapping[str, Sequence[Fault]] = field(default_factory=dict, repr=False)
    left_out: frozenset[str] = field(default=frozenset(), repr=False)

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
    def order(self) -> Order:
        return order_of(self.settings)

    @cached_property
    def plan(self) -> Mapping[str, Step]:
        return make_plan(self.nodes, self.types, self.connections, self.order)

    @cached_property
    def _suppliers(self) -> dict[tuple[str, ConnectionType], list[str]]:
        found: dict[tuple[str, ConnectionType], list[tuple[tuple[float, ...], str]]] = {}
        for edge in self.connections:
            node = self.nodes[edge.source]
            if edge.kind is not ConnectionType.MAIN and not node.disabled and edge.source not in self.left_out:
                x, y = node.position
                found.setdefault((edge.target, edge.kind), []).append(((edge.input, y, x), node.name))
        return {key: list(dict.fromkeys(name for _, name in sorted(ends))) for key, ends in found.items()}
