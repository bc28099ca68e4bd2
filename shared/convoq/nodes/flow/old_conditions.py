"""Conditions as the first versions of If, Filter and Switch write them: values of any type, compared without checks."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import Any, Literal

from convoq.contract.context import Context
from convoq.contract.parameters import Parameters
from convoq.errors import NodeFailed
from convoq.expressions import js
from convoq.nodes.flow.comparisons import Compare, exists, in_order, negated, same, with_negations
from convoq.nodes.flow.scripted import instant, matches

OldType = Literal["boolean", "dateTime", "number", "string"]
_DEFAULTS: Mapping[OldType, tuple[str, Any]] = {
    "boolean": ("equal", False),
    "dateTime": ("after", ""),
    "number": ("smaller", 0),
    "string": ("equal", ""),
}
"""Operation and second value, where a file has none."""


class OldCondition(Parameters):
    value1: Any = None
    operation: str = ""
    value2: Any = None


class OldConditions(Parameters):
    boolean: tuple[OldCondition, ...] = ()
    date_time: tuple[OldCondition, ...] = ()
    number: tuple[OldCondition, ...] = ()
    string: tuple[OldCondition, ...] = ()

    async def old_hold(self, ctx: Context[Any], item_index: int, *, any_: bool) -> bool:
        """All of them, or any. Raises `NodeFailed` where two values cannot be compared so."""
        by_type: Mapping[OldType, tuple[OldCondition, ...]] = {
            "boolean": self.boolean,
            "dateTime": self.date_time,
            "number": self.number,
            "string": self.string,
        }
        for kind, conditions in by_type.items():
            for condition in conditions:
                if await compare(ctx, kind, condition, condition.value1, item_index) is any_:
                    return any_
        return not any_


async def compare(ctx: Context[Any], kind: OldType, condition: OldCondition, value: Any, item_index: int) -> bool:
    operation, other = _DEFAULTS[kind]
    operation = condition.operation or operation
    other = other if condition.value2 is None else condition.value2
    try:
        if kind == "dateTime":
            value, other = await _moment(ctx, value), await _moment(ctx, other)
        if operation in ("regex", "notRegex"):
            return await matches(ctx, _text(value), _text(other)) is (operation == "regex")
        if operation not in _COMPARISONS:
            raise ValueError(f"there is no comparison {operation!r}")
        return _COMPARISONS[operation](value, other)
    except ValueError as error:
        raise NodeFailed(f"item {item_index}: {error}", item=item_index) from None


async def _moment(ctx: Context[Any], value: Any) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value
    found = await instant(ctx, value) if isinstance(value, str) else None
    if found is None:
        raise ValueError(f"{value!r} is no date and time")
    return found


def _text(value: Any) -> str:
    return js.text(value) if js.truthy(value) else ""


def _on_text(compare: Compare) -> Compare:
    def compared(left: Any, right: Any) -> bool:
        if not isinstance(left, str):
            raise ValueError(f"value 1 should be a text, but is {'null' if left is None else repr(left)[:200]}")
        return compare(left, js.text(right))

    return compared


def _or_zero(compare: Compare) -> Compare:
    ordered = in_order(compare)
    return lambda left, right: ordered(left if js.truthy(left) else 0, right if js.truthy(right) else 0)


def _is_empty(left: Any, right: Any) -> bool:
    return not exists(left) or left in ("", [], {})


_COMPARISONS: Mapping[str, Compare] = {
    **with_negations(
        {
            "contains": lambda left, right: _text(right) in _text(left),
            "startsWith": _on_text(str.startswith),
            "endsWith": _on_text(str.endswith),
            "equal": same,
        }
    ),
    "after": _or_zero(operator.gt),
    "before": _or_zero(operator.lt),
    "larger": _or_zero(operator.gt),
    "largerEqual": _or_zero(operator.ge),
    "smaller": _or_zero(operator.lt),
    "smallerEqual": _or_zero(operator.le),
    "isEmpty": _is_empty,
    "isNotEmpty": negated(_is_empty),
}
