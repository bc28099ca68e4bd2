"""JSON in a model's answer, and whether it fits a schema."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

import jsonschema
from referencing import Registry

from convoq.errors import NodeFailed, OutputNotParsed

_FENCE = re.compile(r"```(?:json)?\s*\n?(.*?)```", re.DOTALL | re.IGNORECASE)
SHOWN_CHARS = 300


def json_in(text: str) -> Any:
    """The JSON value that an answer is or holds: bare, in a fence, or between other words. Raises `OutputNotParsed`."""
    for candidate in _candidates(text):
        try:
            return json.loads(candidate, strict=False)
        except (ValueError, RecursionError):
            continue
    raise OutputNotParsed(f"the model's answer holds no JSON: {text[:SHOWN_CHARS]!r}")


def _candidates(text: str) -> Iterator[str]:
    yield text
    yield from _FENCE.findall(text)
    for opening, closing in ("{}", "[]"):
        start, end = text.find(opening), text.rfind(closing)
        if 0 <= start < end:
            yield text[start : end + 1]


class Schema:
    """A JSON schema. References lead only within it: nothing is fetched."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        kind = jsonschema.validators.validator_for(schema, default=jsonschema.Draft7Validator)
        try:
            kind.check_schema(dict(schema))
        except jsonschema.SchemaError as error:
            raise NodeFailed(f"the output's JSON schema is none: {error.message[:SHOWN_CHARS]}") from None
        self._validator = kind(schema, registry=Registry())

    def check(self, value: Any) -> None:
        """Raises `OutputNotParsed`, naming the field."""
        try:
            error = next(iter(self._validator.iter_errors(value)), None)
        except Exception as failure:  # of a reference that leads nowhere, say
            raise NodeFailed(f"the output's JSON schema cannot be used: {failure}") from failure
        if error is not None:
            where = ".".join(map(str, error.absolute_path))
            shown = f"field {where!r}: " if where else ""
            raise OutputNotParsed(f"the model's answer does not fit the schema: {shown}{error.message[:SHOWN_CHARS]}")


def closed(schema: Any, *, required: bool) -> Any:
    """The schema without room for more fields than it names; with `required` every one of them must be there."""
    if not isinstance(schema, Mapping):
        return schema
    found = {key: closed(value, required=required) if key == "items" else value for key, value in schema.items()}
    properties = found.get("properties")
    if isinstance(properties, Mapping):
        found["properties"] = {name: closed(inner, required=required) for name, inner in properties.items()}
        found.setdefault("additionalProperties", False)
        if required:
            found["required"] = list(properties)
        else:
            found.pop("required", None)
    return found
