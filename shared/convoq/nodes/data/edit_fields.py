"""Edit Fields (n8n's Set): give items fields, field by field or as one JSON object."""

from __future__ import annotations

import copy
import math
from typing import Any, Literal

from pydantic import Field, ValidationInfo, field_validator

from convoq.contract.context import RunContext
from convoq.contract.items import Item
from convoq.contract.node import MainNode
from convoq.contract.parameters import Parameters, as_written, parameter
from convoq.contract.per_item import per_item
from convoq.errors import NodeFailed
from convoq.expressions import js
from convoq.expressions.field_types import FieldType, convert
from convoq.nodes.fields import holder, names, put
from convoq.nodes.raw_json import parsed, raw_json


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


class OldestField(Parameters):
    name: str = ""
    value: Any = None


class OldestFields(Parameters):
    """Fields as versions 1 and 2 write them. They are set in this order; texts are not made of other values."""

    boolean: tuple[OldestField, ...] = ()
    number: tuple[OldestField, ...] = ()
    string: tuple[OldestField, ...] = ()

    def values(self, version: float) -> list[tuple[str, Any]]:
        found: list[tuple[str, Any]] = [(field.name, js.truthy(field.value)) for field in self.boolean]
        for field in self.number:
            value = 0 if field.value is None else field.value
            number = js.number(value)
            made = version >= 2 and isinstance(value, str) and not math.isnan(number)
            found.append((field.name, number if made else value))
        return found + [(field.name, "" if field.value is None else field.value) for field in self.string]


class Options(Parameters):
    dot_notation: bool = True
    ignore_conversion_errors: bool = False
    include_binary: bool = False
    strip_binary: bool = False


class EditFieldsParameters(Parameters):
    mode: Literal["manual", "raw"] = "manual"
    assignments: Assignments = Assignments()
    fields: OldFields = OldFields()
    values: OldestFields = parameter(OldestFields(), versions=(1, 2))
    keep_only_set: bool = parameter(False, versions=(1, 2))
    json_output: Any = Field(default_factory=dict)
    include_other_fields: bool = False
    include: Literal["all", "none", "selected", "except"] = "all"
    include_fields: str = ""
    exclude_fields: str = ""
    options: Options = Options()

    @field_validator("json_output", mode="after")
    @classmethod
    def _is_an_object(cls, value: Any, info: ValidationInfo) -> Any:
        literal = as_written(info) and isinstance(value, str) and not value.startswith("=")
        if literal and info.data.get("mode") == "raw":
            _object(parsed(value))
        return value


def _object(found: Any) -> dict[str, Any]:
    if not isinstance(found, dict):
        raise ValueError("should be a JSON object")
    return found


class EditFieldsNode(MainNode[EditFieldsParameters]):
    type = "n8n-nodes-base.set"
    versions = (1, 3.5)
    parameters_class = EditFieldsParameters

    async def run(self, ctx: RunContext[EditFieldsParameters]) -> list[list[Item]]:
        return await per_item(ctx, lambda index: _edit(ctx, index))


async def _edit(ctx: RunContext[EditFieldsParameters], index: int) -> Item:
    item, parameters, version = ctx.items[index], await ctx.parameters(index), ctx.node.type_version
    options = parameters.options
    include = parameters.include
    if parameters.keep_only_set or (version >= 3.3 and not parameters.include_other_fields):
        include = "none"
    result = _kept(item.json, include, parameters)
    where = f"{ctx.node.name}: item {index}"
    if version < 3:
        new = parameters.values.values(version)
    elif parameters.mode == "raw":
        try:
            written = ctx.node.parameters.get("jsonOutput")
            raw = {} if written is None else await raw_json(ctx, written, index)
            new = list(_object(raw).items())
        except ValueError as error:
            raise NodeFailed(f"{where}: jsonOutput: {error}") from None
    else:
        old = [field.assignment() for field in parameters.fields.values]
        given = parameters.assignments.assignments if version >= 3.3 else old
        new = [(entry.name, _converted(entry, where, options.ignore_conversion_errors)) for entry in given]
    for name, value in new:
        put(result, name, value, dots=options.dot_notation)
    if 3 <= version < 3.4:
        with_binary = options.include_binary
    else:
        with_binary = include != "none" and not options.strip_binary
    return Item(result, item.binary if with_binary else None, index)


def _kept(fields: dict[str, Any], include: str, parameters: EditFieldsParameters) -> dict[str, Any]:
    """A copy of the fields that stay; what lies in them is never changed in the input item."""
    dots = parameters.options.dot_notation
    if include == "all":
        return copy.deepcopy(fields)
    kept: dict[str, Any] = {}
    if include == "selected":
        for name in names(parameters.include_fields):
            inside, key = holder(fields, name, dots=dots)
            if inside is not None and key in inside:
                kept[key] = copy.deepcopy(inside[key])
    elif include == "except":
        kept = copy.deepcopy(fields)
        for name in names(parameters.exclude_fields):
            inside, key = holder(kept, name, dots=dots)
            if inside is not None:
                inside.pop(key, None)
    return kept


def _converted(entry: Assignment, where: str, lenient: bool) -> Any:
    try:
        return convert(entry.value, entry.type)
    except ValueError as error:
        if lenient:
            return entry.value
        raise NodeFailed(f"{where}: field {entry.name!r} should be of type {entry.type}, but is {error}") from None
