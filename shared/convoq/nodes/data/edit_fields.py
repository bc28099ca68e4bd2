"""Edit Fields (n8n's Set): give items fields, field by field or as one JSON object."""

from __future__ import annotations

import copy
import json
import math
import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Any, Literal

from pydantic import Field, ValidationInfo, field_validator

from convoq.contract.context import RunContext
from convoq.contract.items import Item
from convoq.contract.node import MainNode
from convoq.contract.parameters import Parameters
from convoq.contract.per_item import per_item
from convoq.errors import NodeFailed
from convoq.expressions import js

FieldType = Literal["string", "number", "boolean", "array", "object"]


class Assignment(Parameters):
    name: str = ""
    type: FieldType = "string"
    value: Any = None


class Assignments(Parameters):
    assignments: tuple[Assignment, ...] = ()


class OldField(Parameters):
    """A field as versions 3 to 3.2 write it: the value lies under a key that is called like the type."""

    name: str = ""
    type: Literal["stringValue", "numberValue", "booleanValue", "arrayValue", "objectValue"] = "stringValue"
    string_value: Any = None
    number_value: Any = None
    boolean_value: Any = None
    array_value: Any = None
    object_value: Any = None

    def assignment(self) -> Assignment:
        kind = self.type.removesuffix("Value")
        return Assignment.model_validate({"name": self.name, "type": kind, "value": getattr(self, f"{kind}_value")})


class OldFields(Parameters):
    values: tuple[OldField, ...] = ()


class Options(Parameters):
    dot_notation: bool = True
    ignore_conversion_errors: bool = False
    include_binary: bool = False
    strip_binary: bool = False


class EditFieldsParameters(Parameters):
    mode: Literal["manual", "raw"] = "manual"
    assignments: Assignments = Assignments()
    fields: OldFields = OldFields()
    json_output: dict[str, Any] | str = Field(default_factory=dict)
    include_other_fields: bool = False
    include: Literal["all", "none", "selected", "except"] = "all"
    include_fields: str = ""
    exclude_fields: str = ""
    options: Options = Options()

    @field_validator("json_output", mode="after")
    @classmethod
    def _is_an_object(cls, value: dict[str, Any] | str, info: ValidationInfo) -> dict[str, Any] | str:
        if info.data.get("mode") == "raw" and isinstance(value, str) and not value.startswith("="):
            _object_of(value)
        return value

    def raw(self) -> dict[str, Any]:
        return _object_of(self.json_output) if isinstance(self.json_output, str) else self.json_output


def _object_of(text: str) -> dict[str, Any]:
    try:
        # Not strict: an expression may have put a line break into a JSON string.
        found = json.loads(text, strict=False)
    except ValueError as error:
        raise ValueError(f"not JSON: {error}") from None
    if not isinstance(found, dict):
        raise ValueError("should be a JSON object")
    return found


class EditFieldsNode(MainNode[EditFieldsParameters]):
    type = "n8n-nodes-base.set"
    versions = (3, 3.4)
    parameters_class = EditFieldsParameters

    async def run(self, ctx: RunContext[EditFieldsParameters]) -> list[list[Item]]:
        return await per_item(ctx, lambda index: _edit(ctx, index))


async def _edit(ctx: RunContext[EditFieldsParameters], index: int) -> Item:
    item, parameters, version = ctx.items[index], await ctx.parameters(index), ctx.node.type_version
    options = parameters.options
    include = parameters.include
    if version >= 3.3 and not parameters.include_other_fields:
        include = "none"
    result = _kept(item.json, include, parameters)
    where = f"{ctx.node.name}: item {index}"
    if parameters.mode == "raw":
        try:
            new = list(parameters.raw().items())
        except ValueError as error:
            raise NodeFailed(f"{where}: jsonOutput: {error}") from None
    else:
        old = [field.assignment() for field in parameters.fields.values]
        given = parameters.assignments.assignments if version >= 3.3 else old
        new = [(entry.name, _converted(entry, where, options.ignore_conversion_errors)) for entry in given]
    for name, value in new:
        _set(result, name, value, options.dot_notation)
    with_binary = options.include_binary if version < 3.4 else include != "none" and not options.strip_binary
    return Item(result, item.binary if with_binary else None, index)


def _kept(fields: dict[str, Any], include: str, parameters: EditFieldsParameters) -> dict[str, Any]:
    """A copy of the fields that stay; what lies in them is never changed in the input item."""
    dots = parameters.options.dot_notation
    if include == "all":
        return copy.deepcopy(fields)
    kept: dict[str, Any] = {}
    if include == "selected":
        for name in _names(parameters.include_fields):
            holder, key = _holder(fields, name, dots)
            if holder is not None and key in holder:
                kept[key] = copy.deepcopy(holder[key])
    elif include == "except":
        kept = copy.deepcopy(fields)
        for name in _names(parameters.exclude_fields):
            holder, key = _holder(kept, name, dots)
            if holder is not None:
                holder.pop(key, None)
    return kept


def _names(text: str) -> Iterator[str]:
    return (name.strip() for name in text.split(",") if name.strip())


def _path(fields: dict[str, Any], name: str, dots: bool) -> list[str]:
    """`a.b[0]` as its keys; a field that is called so in full comes first."""
    if not dots or name in fields:
        return [name]
    return [key for key in re.split(r"[.\[\]]+", name.replace('"', "").replace("'", "")) if key] or [name]


def _holder(fields: dict[str, Any], name: str, dots: bool) -> tuple[dict[str, Any] | None, str]:
    *path, last = _path(fields, name, dots)
    value: Any = fields
    for key in path:
        value = js.member(value, key)
    return (value if isinstance(value, dict) else None), last


def _set(fields: dict[str, Any], name: str, value: Any, dots: bool) -> None:
    path = _path(fields, name, dots)
    if {"__proto__", "constructor", "prototype"}.intersection(path):
        # As in n8n these never become fields: whoever reads the item in JavaScript would trip over them.
        return
    holder: Any = fields
    for key, following in pairwise(path):
        inner = js.member(holder, key)
        if not isinstance(inner, dict | list):
            inner = [] if _index(following) is not None else {}
            _put(holder, key, inner)
        holder = inner
    _put(holder, path[-1], value)


def _put(holder: Any, key: str, value: Any) -> None:
    if isinstance(holder, dict):
        holder[key] = value
    elif (index := _index(key)) is not None:
        holder.extend([None] * (index + 1 - len(holder)))
        holder[index] = value


def _index(key: str) -> int | None:
    return int(key) if key.isascii() and key.isdigit() and len(key) < 5 else None


def _converted(entry: Assignment, where: str, lenient: bool) -> Any:
    value = entry.value
    if value is None:
        return None
    converted = _CONVERSIONS[entry.type](value)
    if converted is not _FAILED:
        return converted
    if lenient:
        return value
    shown = (
        repr(value) if isinstance(value, str | int | float) else "an array" if isinstance(value, list) else "an object"
    )
    raise NodeFailed(f"{where}: field {entry.name!r} should be of type {entry.type}, but is {shown[:200]}")


_FAILED = object()


def _string(value: Any) -> Any:
    if isinstance(value, dict | list):
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return js.text(value)


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
    return _parsed(value, list)


def _object(value: Any) -> Any:
    return None if value == "null" else _parsed(value, dict)


def _parsed(value: Any, kind: type[list[Any]] | type[dict[str, Any]]) -> Any:
    if isinstance(value, str):
        try:
            value = json.loads(value, strict=False)
        except (ValueError, RecursionError):
            return _FAILED
    return value if isinstance(value, kind) else _FAILED


_CONVERSIONS = {"string": _string, "number": _number, "boolean": _boolean, "array": _array, "object": _object}
