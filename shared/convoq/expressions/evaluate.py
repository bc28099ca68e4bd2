"""Expressions: `={{ … }}` alone keeps its type, text around it makes a string.

`evaluate` is the one door. What stands behind it today is the fast path: property paths, literals and bare names. The
rest of JavaScript is refused by an `ExpressionFailed` that quotes it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, Protocol

from convoq.contract.execution import ExecutionInfo
from convoq.contract.items import Item
from convoq.errors import ExpressionFailed
from convoq.expressions import js

Read = Callable[["Scope"], Any]


class Described(Protocol):
    """What an expression sees of its workflow."""

    @property
    def id(self) -> str: ...

    @property
    def name(self) -> str: ...

    @property
    def active(self) -> bool: ...


class Scope(Protocol):
    """What an expression can see. `node_items(name)` are those of the output that leads here, of the node's last run;
    `node_item(name)` is the one that this item came from. Both raise `ExpressionFailed` for a node that did not run."""

    @property
    def node_name(self) -> str: ...

    @property
    def item_index(self) -> int: ...

    @property
    def run_index(self) -> int: ...

    @property
    def items(self) -> Sequence[Item]: ...

    @property
    def execution(self) -> ExecutionInfo: ...

    @property
    def workflow(self) -> Described: ...

    def node_item(self, name: str) -> Item | None: ...

    def node_items(self, name: str) -> Sequence[Item]: ...


def has_expression(template: object) -> bool:
    """Whether any string in the structure is an expression."""
    if isinstance(template, str):
        return template.startswith("=")
    if isinstance(template, dict):
        return any(map(has_expression, template.values()))
    return isinstance(template, list) and any(map(has_expression, template))


async def evaluate(template: object, scope: Scope) -> Any:
    """The value of a template; of a structure, a copy with every expression in it evaluated. Undefined is None.

    Raises `ExpressionFailed`, which names the node and quotes the expression.
    """
    return _evaluate(template, scope)


async def evaluate_given(template: object, scope: Scope) -> Any:
    """As `evaluate`, but without the keys whose value comes to nothing: to be read as not given."""
    return _evaluate_given(template, scope)


def _evaluate(template: object, scope: Scope) -> Any:
    if isinstance(template, str):
        if not template.startswith("="):
            return template
        parts = _compile(template)
        if len(parts) == 1:
            return _value(parts[0], template, scope)
        return "".join([js.text(_value(part, template, scope)) for part in parts])
    if isinstance(template, dict):
        return {key: _evaluate(value, scope) for key, value in template.items()}
    if isinstance(template, list):
        return [_evaluate(value, scope) for value in template]
    return template


def _evaluate_given(template: object, scope: Scope) -> Any:
    if isinstance(template, dict):
        found = ((key, inner, _evaluate_given(inner, scope)) for key, inner in template.items())
        return {key: value for key, inner, value in found if value is not None or inner is None}
    if isinstance(template, list):
        return [_evaluate_given(inner, scope) for inner in template]
    return _evaluate(template, scope)


def _value(part: str | Read, template: str, scope: Scope) -> Any:
    if isinstance(part, str):
        return part
    try:
        return part(scope)
    except ExpressionFailed as error:
        where = f"node {scope.node_name!r}, expression {_shortened(template)!r}"
        raise ExpressionFailed(f"{where}: {error.message}", node=scope.node_name, expression=template) from None


def _shortened(template: str, limit: int = 300) -> str:
    return template if len(template) <= limit else f"{template[:limit]}…"


@lru_cache(maxsize=4096)
def _compile(template: str) -> tuple[str | Read, ...]:
    """Texts and expressions in turn. One part alone keeps its type, so a text without expressions is one part."""
    parts: list[str | Read] = []
    at = 1
    while (opened := template.find("{{", at)) >= 0:
        if opened > at:
            parts.append(template[at:opened])
        closed = template.find("}}", opened + 2)
        end = closed if closed >= 0 else len(template)
        parts.append(_parse(template[opened + 2 : end].strip()))
        at = end + 2
    if at < len(template) or not parts:
        parts.append(template[at:])
    return tuple(parts)


_NAME = r"(?:[^\W\d]|\$)[\w$]*"
_STRING = r"""(?:"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')"""
_DOT = r"\s*\??\.\s*"
_ITEM = rf"(?P<which>item|first\(\s*\)|last\(\s*\)){_DOT}(?P<part>json|binary)(?![\w$(])"
_STEP = re.compile(rf"{_DOT}(?P<name>{_NAME})|\s*(?:\?\.)?\s*\[\s*(?:(?P<index>\d{{1,9}})|(?P<key>{_STRING}))\s*\]")
_ROOTS = (
    re.compile(r"(?P<own>\$json|\$binary)(?![\w$])"),
    re.compile(rf"(?P<input>\$input){_DOT}{_ITEM}"),
    re.compile(rf"\$\(\s*(?P<node>{_STRING})\s*\){_DOT}{_ITEM}"),
    re.compile(
        rf"\$node(?:\[\s*(?P<node>{_STRING})\s*\]|{_DOT}(?P<plain>{_NAME})){_DOT}(?P<part>json|binary)(?![\w$(])"
    ),
    re.compile(rf"\$workflow{_DOT}(?P<workflow>id|name|active)(?![\w$])"),
    re.compile(rf"\$execution{_DOT}(?P<execution>id|mode)(?![\w$])"),
    re.compile(r"\$(?P<index>itemIndex|runIndex)(?![\w$])"),
)
_NUMBER = re.compile(r"-?(?:0|[1-9]\d{0,14})(?:\.\d{1,15})?")
_BARE = re.compile(rf"(?P<first>[^\W\d][\w$]*)(?:{_DOT}{_NAME})*")
_LITERALS: dict[str, Any] = {"true": True, "false": False, "null": None, "undefined": None}
_JAVASCRIPT = frozenset(
    """Array ArrayBuffer BigInt Boolean DataView Date DateTime Duration Error Function Infinity Interval Intl JSON
    Map Math NaN Number Object Promise Proxy Reflect RegExp Set String Symbol URL URLSearchParams Uint8Array WeakMap
    atob await btoa class console decodeURI decodeURIComponent delete do encodeURI encodeURIComponent escape eval
    extend for function globalThis if in isFinite isNaN let new parseFloat parseInt process require return super
    switch this throw try typeof unescape var void while window yield""".split()
)
_ESCAPE = re.compile(r"\\(?:u\{([0-9a-fA-F]{1,6})\}|u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})|(.))", re.DOTALL)
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "v": "\v", "0": "\0"}
_MODES = {"production": "production", "manual": "test"}


def _parse(source: str) -> Read:
    if source in _LITERALS:
        return _constant(_LITERALS[source])
    if _NUMBER.fullmatch(source):
        return _constant(float(source) if "." in source else int(source))
    if re.fullmatch(_STRING, source):
        return _constant(_unquoted(source))
    for pattern in _ROOTS:
        if match := pattern.match(source):
            steps = _steps(source[match.end() :])
            return _unsupported() if steps is None else _path(_root(match), steps)
    if (match := _BARE.fullmatch(source)) and match["first"] not in _JAVASCRIPT:
        # A name that nothing defines, most often a placeholder in a prompt: n8n makes undefined of it.
        return _constant(None)
    return _unsupported()


def _constant(value: Any) -> Read:
    return lambda scope: value


def _unsupported() -> Read:
    def read(scope: Scope) -> Any:
        raise ExpressionFailed("full JavaScript is not supported yet, only property paths and literals are")

    return read


def _unquoted(quoted: str) -> str:
    def character(match: re.Match[str]) -> str:
        code = match[1] or match[2] or match[3]
        if code is None:
            return _ESCAPED.get(match[4], match[4])
        return chr(min(int(code, 16), 0x10FFFF))

    return _ESCAPE.sub(character, quoted[1:-1])


def _steps(source: str) -> tuple[str | int, ...] | None:
    """The keys that follow the root, or None where something else than a path follows."""
    steps: list[str | int] = []
    at = 0
    while at < len(source):
        match = _STEP.match(source, at)
        if match is None:
            return None
        if match["name"] is not None:
            steps.append(match["name"])
        else:
            steps.append(int(match["index"]) if match["key"] is None else _unquoted(match["key"]))
        at = match.end()
    return tuple(steps)


def _path(root: Read, steps: tuple[str | int, ...]) -> Read:
    if not steps:
        return root
    member = js.member

    def read(scope: Scope) -> Any:
        value = root(scope)
        for step in steps:
            value = member(value, step)
        return value

    return read


def _root(match: re.Match[str]) -> Read:
    found = match.groupdict()
    if "own" in found:
        part = found["own"][1:]
        return lambda scope: _part(_chosen(scope.items, "item", scope.item_index), part)
    if "workflow" in found:
        field = found["workflow"]
        return lambda scope: getattr(scope.workflow, field)
    if "execution" in found:
        return (lambda scope: scope.execution.id) if found["execution"] == "id" else _mode
    if "index" in found:
        return _item_index if found["index"] == "itemIndex" else _run_index
    part, which = found["part"], found.get("which") or "item"
    if "input" in found:
        return lambda scope: _part(_chosen(scope.items, which, scope.item_index), part)
    name = _unquoted(found["node"]) if found.get("node") else found["plain"]
    if which == "item":
        return lambda scope: _part(scope.node_item(name), part)
    return lambda scope: _part(_chosen(scope.node_items(name), which, 0), part)


def _chosen(items: Sequence[Item], which: str, index: int) -> Item | None:
    if which == "item":
        return items[index] if index < len(items) else None
    if not items:
        return None
    return items[0 if which.startswith("first") else -1]


def _part(item: Item | None, part: str) -> Any:
    return None if item is None else getattr(item, part)


def _mode(scope: Scope) -> str:
    return _MODES[scope.execution.mode]


def _item_index(scope: Scope) -> int:
    return scope.item_index


def _run_index(scope: Scope) -> int:
    return scope.run_index
