"""How two JSON values compare in JavaScript, as conditions need it."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from typing import Any

from convoq.expressions import js

Compare = Callable[[Any, Any], bool]


def same(left: Any, right: Any) -> bool:
    """`===`: objects and arrays are the same only if they are one."""
    if isinstance(left, dict | list):
        return left is right
    return isinstance(left, bool) is isinstance(right, bool) and bool(left == right)


def in_order(compare: Compare) -> Compare:
    """`<` and its kin: texts by their characters, else numbers; what is no number is in no order."""

    def compared(left: Any, right: Any) -> bool:
        if isinstance(left, str) and isinstance(right, str):
            return compare(left, right)
        numbers = js.number(left), js.number(right)
        return not any(map(math.isnan, numbers)) and compare(*numbers)

    return compared


def exists(value: Any) -> bool:
    """Neither null nor NaN."""
    return value is not None and value == value


def negated(compare: Compare) -> Compare:
    return lambda left, right: not compare(left, right)


def with_negations(found: Mapping[str, Compare]) -> dict[str, Compare]:
    """Each comparison, and as `notX` what is not so."""
    return {**found, **{f"not{name[0].upper()}{name[1:]}": negated(compare) for name, compare in found.items()}}


def equal(left: Any, right: Any) -> bool:
    """Whether two values are alike through and through; numbers, texts and booleans are never each other's like."""
    if isinstance(left, dict):
        if not isinstance(right, dict) or len(left) != len(right):
            return False
        return all(key in right and equal(value, right[key]) for key, value in left.items())
    if isinstance(left, list):
        return isinstance(right, list) and len(left) == len(right) and all(map(equal, left, right))
    return same(left, right)


def loosely_equal(left: Any, right: Any, *, zero_is_null: bool = False) -> bool:
    """n8n's fuzzy comparison: null, an empty text and an empty array are alike, and a number or a boolean is like the
    text that shows it."""
    empty = _is_nothing(left), _is_nothing(right)
    if all(empty):
        return True
    if zero_is_null and ((left is None and right in (0, "0")) or (right is None and left in (0, "0"))):
        return not isinstance(left, bool) and not isinstance(right, bool)
    if any(empty) or isinstance(left, dict | list) or isinstance(right, dict | list):
        return equal(_read(left, right), _read(right, left))
    if isinstance(left, bool) is not isinstance(right, bool):
        return _shown(left) == _shown(right) or (
            not isinstance(left, str) and not isinstance(right, str) and left == right
        )
    return js.text(left) == js.text(right)


def _read(value: Any, other: Any) -> Any:
    """A text as the object or array that it shows, where the other one is such."""
    if isinstance(value, str) and isinstance(other, dict | list):
        try:
            return json.loads(value)
        except (ValueError, RecursionError):
            pass
    return value


def _is_nothing(value: Any) -> bool:
    return value is None or value == "" or value == []


def _shown(value: Any) -> str:
    return js.text(value).lower()
