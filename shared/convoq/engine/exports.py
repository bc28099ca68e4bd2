"""The shapes in which people hand over workflows: exported, copied, listed, wrapped by an API."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

MAX_DEPTH = 6
"""How deep a workflow may be wrapped: n8n's template API has it at `workflow.workflow`."""
MAX_WORKFLOWS = 10_000


def definitions_in(data: object) -> list[dict[str, Any]]:
    """The workflow definitions in decoded JSON, in order; a wrapper's name is that of what it wraps and has none.

    A definition is an object with a list `nodes`: bare, in a list, under `workflow`, `data`, `json`, … An object that
    only has `connections` is none. Empty where there is none.
    """
    found: list[dict[str, Any]] = []
    for definition in _find(data, "", 0):
        found.append(definition)
        if len(found) == MAX_WORKFLOWS:
            break
    return found


def _find(value: object, name: str, depth: int) -> Iterator[dict[str, Any]]:
    if depth > MAX_DEPTH:
        return
    if isinstance(value, Mapping):
        own = value.get("name")
        name = own if isinstance(own, str) and own else name
        if isinstance(value.get("nodes"), list):
            yield dict(value) if not name or own == name else {**value, "name": name}
            return
        for inner in value.values():
            yield from _find(inner, name, depth + 1)
    elif isinstance(value, list):
        for inner in value:
            yield from _find(inner, "", depth + 1)
