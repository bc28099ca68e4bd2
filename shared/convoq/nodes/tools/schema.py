"""A JSON schema made of an example, as n8n makes it: every field of the example is required."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def schema_of_example(example: Any) -> dict[str, Any]:
    if isinstance(example, Mapping):
        return {
            "type": "object",
            "properties": {str(name): schema_of_example(value) for name, value in example.items()},
            "required": [str(name) for name in example],
        }
    if isinstance(example, list):
        return {"type": "array", "items": schema_of_example(example[0]) if example else {}}
    if isinstance(example, bool):
        return {"type": "boolean"}
    if isinstance(example, int | float):
        return {"type": "number"}
    return {"type": "null"} if example is None else {"type": "string"}
