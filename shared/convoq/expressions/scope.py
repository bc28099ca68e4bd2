"""What an expression can see."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from convoq.contract.execution import ExecutionInfo
from convoq.contract.items import Item
from convoq.expressions.sandbox import Sandbox


class Described(Protocol):
    """What an expression sees of its workflow."""

    @property
    def id(self) -> str: ...

    @property
    def name(self) -> str: ...

    @property
    def active(self) -> bool: ...


class Scope(Protocol):
    """One node's view on one of its items.

    Of the methods those that take a node's name raise `ExpressionFailed` where there is no such node; `node_items` and
    `node_item` also where it did not run, or has no such run or output.
    """

    @property
    def node_name(self) -> str: ...

    @property
    def item_index(self) -> int: ...

    @property
    def run_index(self) -> int: ...

    @property
    def items(self) -> Sequence[Item]:
        """Of the node's first input."""
        ...

    @property
    def execution(self) -> ExecutionInfo: ...

    @property
    def resume_url(self) -> str: ...

    @property
    def workflow(self) -> Described: ...

    @property
    def timezone(self) -> str:
        """The workflow's, an IANA name."""
        ...

    @property
    def variables(self) -> Mapping[str, Any]: ...

    @property
    def environment(self) -> Mapping[str, str] | None:
        """None where expressions may not see it."""
        ...

    @property
    def previous(self) -> tuple[str, int, int] | None:
        """Where the items came from: node, output, run."""
        ...

    @property
    def from_ai(self) -> Mapping[str, Any] | None:
        """What a model gave, where the node runs as a tool."""
        ...

    @property
    def extra(self) -> Mapping[str, Any]:
        """Further names, such as `$response` while a request is paged through."""
        ...

    @property
    def sandbox(self) -> Sandbox: ...

    def at(self, item_index: int) -> Scope:
        """The same for another item."""
        ...

    def last_run_index(self, name: str) -> int:
        """-1 where it has not run."""
        ...

    def node_parameters(self, name: str | None) -> Mapping[str, Any]:
        """As the file has them; of this node for None."""
        ...

    def node_kept(self, name: str | None) -> Mapping[str, Any]:
        """What that node, or this one for None, keeps from run to run (`$('Node').context`)."""
        ...

    def node_items(self, name: str, output: int | None = None, run: int | None = None) -> Sequence[Item]:
        """Of the output that leads here, or else the first, unless one is named; of the last run, or of run `run`."""
        ...

    def node_item(self, name: str) -> Item | None:
        """The one that this item came from."""
        ...
