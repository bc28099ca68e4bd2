"""n8n's two execution orders: which of the nodes that could run next does.

`v1` runs a branch to its end before it begins the next, the upper branch on the canvas before the lower. A workflow
that does not name an order has the older one (`v0`): all branches side by side, a step of each in turn, as drawn.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any, Protocol, TypeVar

from convoq.contract.definition import Connection, Node

T = TypeVar("T")


class Order(Protocol):
    """`may_insist`: whether a node that wants all its inputs is left out where one of them never comes."""

    may_insist: bool

    def followed(self, edges: Iterable[Connection], nodes: Mapping[str, Node]) -> tuple[Connection, ...]:
        """A node's connections, in the order in which what they lead to is to be `put`."""
        ...

    def put(self, due: deque[T], next_: T) -> None:
        """Put what comes next among all that is due; the leftmost runs first."""
        ...


class DepthFirst:
    may_insist = True

    def followed(self, edges: Iterable[Connection], nodes: Mapping[str, Node]) -> tuple[Connection, ...]:
        def canvas(edge: Connection) -> tuple[float, float]:
            x, y = nodes[edge.target].position
            return (-y, -x)

        # The upper one is put last, so that it comes first; then the left one, and of equals the later output.
        return tuple(sorted(edges, key=canvas))

    def put(self, due: deque[T], next_: T) -> None:
        due.appendleft(next_)


class BreadthFirst:
    may_insist = False

    def followed(self, edges: Iterable[Connection], nodes: Mapping[str, Node]) -> tuple[Connection, ...]:
        return tuple(edges)

    def put(self, due: deque[T], next_: T) -> None:
        due.append(next_)


def order_of(settings: Mapping[str, Any]) -> Order:
    """The order that a workflow's settings name."""
    return DepthFirst() if settings.get("executionOrder") == "v1" else BreadthFirst()
