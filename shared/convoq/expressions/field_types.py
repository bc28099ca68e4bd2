"""n8n's field types: whether a value is of one, and what is made of a value of another."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from typing import Any, Literal

from convoq.expressions import js

FieldType = Literal["string", "number", "boolean", "array", "object"]


def convert(value: Any, kind: FieldType, *, strict: bool = False) -> Any:
    """`value` as one of that type; `strict` takes only what is one already. None is of every type.

    Raises `ValueError`, whose text says what the value is.
    """
    if value is None:
        return None
    if strict and not _IS[kind](value):
        raise ValueError(described(value))
    found = _CONVERSIONS[kind](value)
    if found is _FAILED:
        raise ValueError(described(value))
    return found


def described(value: Any) -> str:
    """A value in a message: scalars themselves, arrays and objects by what they are."""
    if isinstance(value, list):
        return "an array"
    return "an object" if isinstance(value, dict) else repr(value)[:200]


def json_text(value: Any) -> str:
    """`JSON.stringify(value)`."""
    return json.dumps(_plain(value), ensure_ascii=False, separators=(",", ":"))


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_plain(inner) for inner in value]
    if isinstance(value, float):
        return None if not math.isfinite(value) else int(value) if value.is_integer() and abs(value) < 1e21 else value
    return value


_FAILED = object()


def _string(value: Any) -> Any:
    return json_text(value) if isinstance(value, dict | list) else js.text(value)


def _number(value: Any) -> Any:
    found = js.number(value)
    return _FAILED if math.isnan(found) else found


def _boolean(value: Any) -> Any:
    if isinstance(value, str):
        if value.lower() in ("true", "false"):
            return value.lower() == "true"
        if not value.strip():
            return _FAILED
    found = js.number(value)
    return bool(found) if found in (0, 1) else _FAILED


def _array(value: Any) -> Any:
    found = _parsed(value, list)
    return _parsed(value.replace("'", '"'), list) if found is _FAILED and isinstance(value, str) else found


def _object(value: Any) -> Any:
    return None if value == "null" else _parsed(value, dict)


def _parsed(value: Any, kind: type[list[Any]] | type[dict[str, Any]]) -> Any:
    if isinstance(value, str):
        try:
            value = json.loads(value, strict=False)
        except (ValueError, RecursionError):
            return _FAILED
    return value if isinstance(value, kind) else _FAILED


_CONVERSIONS: Mapping[FieldType, Callable[[Any], Any]] = {
    "string": _string,
    "number": _number,
    "boolean": _boolean,
    "array": _array,
    "object": _object,
}
_IS: Mapping[FieldType, Callable[[Any], bool]] = {
    "string": lambda value: isinstance(value, str),
    "number": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
    "boolean": lambda value: isinstance(value, bool),
    "array": lambda value: isinstance(value, list),
    "object": lambda value: isinstance(value, dict),
}
