"""Items, some other nodes, and what expressions make of them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import pytest

from convoq.contract.execution import ExecutionInfo
from convoq.contract.items import Item
from convoq.errors import ExpressionFailed
from convoq.expressions.evaluate import evaluate
from convoq.expressions.sandbox import Sandbox

INFO = ExecutionInfo("exec-1", 1, "wf-1", "Test", "session-1", "manual", 0.0)


@cache
def shared_sandbox() -> Sandbox:
    """One for all tests of a process; its processes end with it."""
    return Sandbox()


@dataclass(frozen=True)
class Described:
    id: str = "wf-1"
    name: str = "Test"
    active: bool = True


@dataclass(frozen=True)
class View:
    """A scope over plain lists. Other nodes' items are paired by place; `asked` notes whose were looked at."""

    items: Sequence[Item] = (Item({}),)
    nodes: Mapping[str, Sequence[Mapping[str, Any]] | None] = field(default_factory=dict)
    item_index: int = 0
    sandbox: Sandbox = field(default_factory=shared_sandbox)
    timezone: str = "UTC"
    variables: Mapping[str, Any] = field(default_factory=dict)
    environment: Mapping[str, str] | None = None
    from_ai: Mapping[str, Any] | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    node_name: str = "Here"
    run_index: int = 0
    execution: ExecutionInfo = INFO
    resume_url: str = ""
    workflow: Described = Described()
    previous: tuple[str, int, int] | None = ("Before", 1, 2)

    def at(self, item_index: int) -> View:
        return replace(self, item_index=item_index)

    def last_run_index(self, name: str) -> int:
        return -1 if self._items(name) is None else 0

    def node_parameters(self, name: str | None) -> Mapping[str, Any]:
        return {"of": name}

    def node_kept(self, name: str | None) -> Mapping[str, Any]:
        return {}

    def node_items(self, name: str, output: int | None = None, run: int | None = None) -> Sequence[Item]:
        self.asked.append(name)
        if (found := self._items(name)) is None:
            raise ExpressionFailed(f"node {name!r} has not run")
        return [Item(dict(one), None, index) for index, one in enumerate(found)]

    def node_item(self, name: str) -> Item | None:
        items = self.node_items(name)
        return items[self.item_index] if self.item_index < len(items) else None

    def _items(self, name: str) -> Sequence[Mapping[str, Any]] | None:
        if name not in self.nodes:
            raise ExpressionFailed(f"there is no node {name!r}")
        return self.nodes[name]


def view(*items: Mapping[str, Any], **others: Any) -> View:
    return View([Item(dict(item)) for item in items or ({},)], **others)


def value(template: Any, *items: Mapping[str, Any], **others: Any) -> Any:
    return asyncio.run(evaluate(template, view(*items, **others)))


def failure(source: str, *items: Mapping[str, Any], **others: Any) -> str:
    """Why an expression fails: the message without the place and the source that it quotes."""
    with pytest.raises(ExpressionFailed) as caught:
        of(source, *items, **others)
    return str(caught.value.details["reason"])


def of(source: str, *items: Mapping[str, Any], **others: Any) -> Any:
    """Of an expression alone."""
    return value(f"={{{{ {source} }}}}", *items, **others)
