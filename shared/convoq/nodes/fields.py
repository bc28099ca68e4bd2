"""Fields of an item's JSON by their path: `a.b`, `a.b[0]`, `a["b c"]`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any, Final

from convoq.expressions import js

MISSING: Final = object()
"""What `field` gives for a field that is not there; null is there."""
UNSAFE: Final = frozenset(("__proto__", "constructor", "prototype"))
"""As in n8n these never become fields: whoever reads the item in JavaScript would trip over them."""


def names(text: str) -> Iterator[str]:
    """The names in a comma-separated list."""
    return (name.strip() for name in text.split(",") if name.strip())


def path(fields: Mapping[str, Any], name: str, *, dots: bool = True) -> list[str]:
    """The keys that `name` leads along; a field that is called so in full comes first, and without `dots` alone."""
    if not dots or name in fields:
        return [name]
    return [key for key in re.split(r"[.\[\]]+", name.replace('"', "").replace("'", "")) if key] or [name]


def field(fields: Mapping[str, Any], name: str, *, dots: bool = True) -> Any:
    """The value of a field, or `MISSING`."""
    value: Any = fields
    for key in path(fields, name, dots=dots):
        if isinstance(value, Mapping):
            value = value.get(key, MISSING)
        elif isinstance(value, list) and (index := _index(key)) is not None and index < len(value):
            value = value[index]
        else:
            return MISSING
    return value


def holder(fields: dict[str, Any], name: str, *, dots: bool = True) -> tuple[dict[str, Any] | None, str]:
    """The object that a field lies in, where there is one, and its key in there."""
    *way, last = path(fields, name, dots=dots)
    value: Any = fields
    for key in way:
        value = js.member(value, key)
    return (value if isinstance(value, dict) else None), last


def put(fields: dict[str, Any], name: str, value: Any, *, dots: bool = True) -> None:
    """Set a field; what is not there on the way to it is made."""
    way = path(fields, name, dots=dots)
    if UNSAFE.intersection(way):
        return
    inside: Any = fields
    for key, following in pairwise(way):
        inner = js.member(inside, key)
        if not isinstance(inner, dict | list):
            inner = [] if _index(following) is not None else {}
            _put(inside, key, inner)
        inside = inner
    _put(inside, way[-1], value)


def _put(inside: Any, key: str, value: Any) -> None:
    if isinstance(inside, dict):
        inside[key] = value
    elif (index := _index(key)) is not None:
        inside.extend([None] * (index + 1 - len(inside)))
        inside[index] = value


def _index(key: str) -> int | None:
    return int(key) if key.isascii() and key.isdigit() and len(key) < 5 else None
