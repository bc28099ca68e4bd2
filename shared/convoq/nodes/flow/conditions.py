"""n8n's filter parameter, which If, Switch and Filter share: conditions on an item, each of a type."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import Any, Literal

from convoq.contract.context import Context
from convoq.contract.definition import Node
from convoq.contract.parameters import Parameters
from convoq.errors import NodeFailed
from convoq.expressions import js
from convoq.expressions.field_types import convert, described
from convoq.nodes.flow.comparisons import Compare, exists, in_order, negated, same, with_negations
from convoq.nodes.flow.old_conditions import OldConditions
from convoq.nodes.flow.scripted import instant, matches

ConditionType = Literal["string", "number", "dateTime", "boolean", "array", "object", "any"]


class Operator(Parameters):
    """`right_type` is that of the right side where it differs; with `single_value` there is none."""

    type: ConditionType = "string"
    operation: str = "equals"
    right_type: ConditionType | None = None
    single_value: bool = False


class Condition(Parameters):
    left_value: Any = None
    right_value: Any = None
    operator: Operator = Operator()


class ConditionOptions(Parameters):
    """`version` is that of n8n's filter parameter, not of a node."""

    case_sensitive: bool = True
    type_validation: Literal["strict", "loose"] = "strict"
    version: float = 1


class EditorOptions(Parameters):
    """What n8n's editor writes into the options of the conditions, which alone count."""

    ignore_case: bool = False
    loose_type_validation: bool = False


class Conditions(OldConditions):
    """In the form of the first versions or in that of the later ones: versions say little here, hands and tools have
    mixed them."""

    options: ConditionOptions = ConditionOptions()
    combinator: Literal["and", "or"] = "and"
    conditions: tuple[Condition, ...] = ()

    async def hold(self, ctx: Context[Any], item_index: int, *, any_: bool = False) -> bool:
        """The later ones are asked only where the earlier leave it open; of the old form one is enough with `any_`.

        Raises `NodeFailed` where a value is not of its condition's type.
        """
        if not self.conditions and self.combinator == "and":
            return await self.old_hold(ctx, item_index, any_=any_)
        decisive = self.combinator == "or"
        for number, condition in enumerate(self.conditions):
            try:
                found = await _holds(ctx, condition, self.options)
            except ValueError as error:
                place = f"item {item_index}, condition {number + 1}"
                raise NodeFailed(f"{place}: {error}", item=item_index, condition=number) from None
            if found is decisive:
                return decisive
        return not decisive


def warning(node: Node) -> str | None:
    """What to say of a node's conditions when a file is read."""
    found = node.parameters.get("conditions")
    return never_holding(found.get("conditions")) if isinstance(found, dict) else None


def never_holding(raw: object) -> str | None:
    """What to say, when a file is read, of conditions with a comparison that n8n does not know."""
    names: dict[str, None] = {}
    for condition in raw if isinstance(raw, list) else ():
        found = condition.get("operator") if isinstance(condition, dict) else None
        kind, operation = (found.get("type"), found.get("operation")) if isinstance(found, dict) else (None, None)
        if isinstance(kind, str) and isinstance(operation, str) and operation not in _KNOWN.get(kind, (operation,)):
            names[f"{kind}:{operation}"] = None
    return _never(", ".join(names)) if names else None


def _never(names: str) -> str:
    return f"there is no comparison {names}: such a condition never holds"


async def _holds(ctx: Context[Any], condition: Condition, options: ConditionOptions) -> bool:
    kind, operation = condition.operator.type, condition.operator.operation
    if operation not in _KNOWN[kind]:
        ctx.note(_never(f"{kind}:{operation}"))
        return False
    left = await _read(ctx, condition.left_value, kind, options, "left")
    try:
        right = await _read(ctx, condition.right_value, condition.operator.right_type or kind, options, "right")
    except ValueError:
        if not condition.operator.single_value:
            raise
        right = None
    wanted = _PRESENCE.get(operation) if operation in _EXISTENCE or kind not in _EMPTIABLE else None
    if wanted is not None:
        return exists(left) is wanted
    if operation in _REGEX:
        found = await matches(ctx, left or "", right or "", ignore_case=not options.case_sensitive)
        return found is (operation == "regex")
    if not options.case_sensitive:
        left, right = _folded(left), _folded(right)
    return _COMPARISONS[kind][operation](left, right)


async def _read(ctx: Context[Any], value: Any, kind: ConditionType, options: ConditionOptions, side: str) -> Any:
    """A side as a value of its type. Raises `ValueError` where it is none and does not become one."""
    if kind == "any" or value is None or value != value:
        return value
    strict = options.type_validation == "strict"
    if kind == "dateTime":
        if (moment := await instant(ctx, value)) is None:
            raise ValueError(_wrong(side, value, kind, strict))
        return moment
    if kind == "number" and options.version >= 3 and (value == [] or (isinstance(value, str) and not value.strip())):
        return None
    if kind == "boolean" and not strict and options.version < 2:
        return js.truthy(value)
    try:
        return convert(value, kind, strict=strict)
    except ValueError:
        if kind == "boolean" and not strict:
            return js.truthy(value)
        raise ValueError(_wrong(side, value, kind, strict)) from None


def _wrong(side: str, value: Any, kind: str, strict: bool) -> str:
    advice = "; 'Convert types where required' (loose type validation) would try to make one of it" if strict else ""
    return f"the {side} value should be of type {kind}, but is {described(value)}{advice}"


def _folded(value: Any) -> Any:
    if isinstance(value, list):
        return [_folded(inner) for inner in value]
    return value.lower() if isinstance(value, str) else value


def _on_text(compare: Compare) -> Compare:
    return lambda left, right: compare(left or "", right or "")


def _both_given(compare: Compare) -> Compare:
    return lambda left, right: left is not None and right is not None and compare(left, right)


def _length(compare: Compare) -> Compare:
    return lambda left, right: compare(len(left or ()), right)


def _contains(left: Any, right: Any) -> bool:
    return any(same(inner, right) for inner in left or ())


def _is_empty(left: Any, right: Any) -> bool:
    return not left


_EXISTENCE = frozenset(("exists", "notExists"))
_REGEX = frozenset(("regex", "notRegex"))
_PRESENCE: Mapping[str, bool] = {"exists": True, "notExists": False, "notEmpty": True, "empty": False}
_EMPTIABLE = frozenset(("string", "array", "object"))
"""Of the other types a value is empty if there is none."""
_ORDER: Mapping[str, Compare] = {"gt": operator.gt, "lt": operator.lt, "gte": operator.ge, "lte": operator.le}
_EQUALITY = with_negations({"equals": same})
_COMPARISONS: Mapping[ConditionType, Mapping[str, Compare]] = {
    "string": with_negations(
        {
            "empty": _is_empty,
            "equals": _on_text(operator.eq),
            "contains": _on_text(operator.contains),
            "startsWith": _on_text(str.startswith),
            "endsWith": _on_text(str.endswith),
        }
    ),
    "number": {**_EQUALITY, **{name: _both_given(in_order(compare)) for name, compare in _ORDER.items()}},
    "dateTime": {
        "equals": _both_given(operator.eq),
        "notEquals": _both_given(operator.ne),
        "after": _both_given(operator.gt),
        "before": _both_given(operator.lt),
        "afterOrEquals": _both_given(operator.ge),
        "beforeOrEquals": _both_given(operator.le),
    },
    "boolean": {**_EQUALITY, "true": lambda left, _: bool(left), "false": lambda left, _: not left},
    "array": {
        **with_negations({"contains": _contains, "empty": _is_empty}),
        "lengthEquals": _length(same),
        "lengthNotEquals": _length(negated(same)),
        **{f"length{name.capitalize()}": _length(in_order(compare)) for name, compare in _ORDER.items()},
    },
    "object": with_negations({"empty": _is_empty}),
    "any": {},
}
_KNOWN: Mapping[str, frozenset[str]] = {
    kind: frozenset(found) | frozenset(_PRESENCE) | (_REGEX if kind == "string" else frozenset())
    for kind, found in _COMPARISONS.items()
}
