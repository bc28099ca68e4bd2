"""The fast path: property paths, literals and bare names, which need no JavaScript."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from convoq.contract.binary import shown
from convoq.contract.items import Item
from convoq.errors import ExpressionFailed
from convoq.expressions import js
from convoq.expressions.scope import Scope

Read = Callable[[Scope], Any]

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
        rf"\$node(?:\[\s*(?P<old>{_STRING})\s*\]|{_DOT}(?P<plain>{_NAME})){_DOT}(?P<part>json|binary)(?![\w$(])"
    ),
    re.compile(rf"\$workflow{_DOT}(?P<workflow>id|name|active)(?![\w$])"),
    re.compile(rf"\$execution{_DOT}(?P<execution>id|mode)(?![\w$])"),
    re.compile(r"\$(?P<index>itemIndex|runIndex)(?![\w$])"),
)
_NUMBER = re.compile(r"-?(?:0|[1-9]\d{0,14})(?:\.\d{1,15})?")
_BARE = re.compile(rf"(?P<first>[^\W\d][\w$]*)(?:{_DOT}{_NAME})*")
_LITERALS: dict[str, Any] = {"true": True, "false": False, "null": None, "undefined": None}
_GUARDED = frozenset(
    """__defineGetter__ __defineSetter__ __lookupGetter__ __lookupSetter__ __proto__ arguments callee caller constructor
    defineProperties defineProperty getOwnPropertyDescriptor getOwnPropertyDescriptors getPrototypeOf prototype
    setPrototypeOf""".split()
)
"""Keys that n8n refuses: how, is left to the sandbox."""
_JAVASCRIPT = frozenset(
    """Array ArrayBuffer BigInt BigInt64Array BigUint64Array Boolean DataView Date DateTime Duration Error EvalError
    Float32Array Float64Array Function Infinity Int16Array Int32Array Int8Array Interval Intl JSON Map Math NaN Number
    Object Promise Proxy RangeError ReferenceError Reflect RegExp Set String Symbol SyntaxError TypeError URIError
    Uint16Array Uint32Array Uint8Array Uint8ClampedArray WeakMap WeakSet WebAssembly arguments async average await
    break case catch class const continue debugger decodeURI decodeURIComponent default delete do else encodeURI
    encodeURIComponent enum eval export extend extends finally for function global globalThis if implements import in
    instanceof interface isFinite isNaN let max min new not numberList package parseFloat parseInt private process
    protected public return static super switch this throw try typeof var void while with yield zip""".split()
)
_ESCAPE = re.compile(r"\\(?:u\{([0-9a-fA-F]{1,6})\}|u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})|(.))", re.DOTALL)
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "v": "\v", "0": "\0"}
MODES = {"production": "production", "manual": "test"}
"""n8n's word for `ExecutionInfo.mode`."""


def plain(source: str) -> Read | None:
    """A reader of what the expression means, or None where that takes JavaScript."""
    if source in _LITERALS:
        return _constant(_LITERALS[source])
    if _NUMBER.fullmatch(source):
        return _constant(float(source) if "." in source else int(source))
    if re.fullmatch(_STRING, source):
        return _constant(_unquoted(source))
    for pattern in _ROOTS:
        if match := pattern.match(source):
            steps = _steps(source[match.end() :])
            return None if steps is None else _path(_root(match), steps)
    if (match := _BARE.fullmatch(source)) and match["first"] not in _JAVASCRIPT and not _guards(source):
        # A name that nothing defines, most often a placeholder in a prompt: n8n makes undefined of it.
        return _named(source, match["first"])
    return None


def _guards(source: str) -> bool:
    return not _GUARDED.isdisjoint(re.findall(r"[\w$]+", source))


def _constant(value: Any) -> Read:
    return lambda scope: value


def _named(source: str, first: str) -> Read:
    def read(scope: Scope) -> Any:
        value = scope.extra.get(first)
        for name in re.findall(_NAME, source)[1:]:
            value = js.member(value, name)
        return value

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
    return None if _GUARDED.intersection(map(str, steps)) else tuple(steps)


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
        if found["own"] == "$json":
            return lambda scope: _part(_chosen(scope.items, "item", scope.item_index), "json")
        return lambda scope: _part(_chosen(scope.items, "item", scope.item_index), "binary") or {}
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
    if "node" not in found:
        old = _unquoted(found["old"]) if found["old"] else found["plain"]
        if part == "json":
            return lambda scope: at_place(scope, old).json
        return lambda scope: shown(at_place(scope, old).binary)
    name = _unquoted(found["node"])
    if which == "item":
        return lambda scope: _part(scope.node_item(name), part)
    return lambda scope: _part(_chosen(scope.node_items(name), which, 0), part)


def at_place(scope: Scope, name: str, index: int | None = None) -> Item:
    """`$node["name"]`: the item at the same place, whatever it came from. Raises `ExpressionFailed`."""
    items = scope.node_items(name)
    index = scope.item_index if index is None else index
    if not 0 <= index < len(items):
        raise ExpressionFailed(f"node {name!r} has no item {index}")
    return items[index]


def _chosen(items: Sequence[Item], which: str, index: int) -> Item | None:
    if which == "item":
        return items[index] if index < len(items) else None
    if not items:
        return None
    return items[0 if which.startswith("first") else -1]


def _part(item: Item | None, part: str) -> Any:
    if item is None:
        return None
    return item.json if part == "json" else shown(item.binary) or None


def _mode(scope: Scope) -> str:
    return MODES[scope.execution.mode]


def _item_index(scope: Scope) -> int:
    return scope.item_index


def _run_index(scope: Scope) -> int:
    return scope.run_index
