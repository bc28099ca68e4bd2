"""`$fromAI(key, description?, type?, default?)` in a node's parameters: what a model is to give when it calls the node.

The calls are found in the text of expressions, as n8n finds them: their arguments are literals.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from convoq.errors import NodeFailed

_CALL = re.compile(r"\$from(?:AI|Ai|ai)\s*\(")
_KEY = re.compile(r"[A-Za-z0-9_-]{1,64}")
_TYPES: Mapping[str, Mapping[str, Any]] = {
    "string": {"type": "string"},
    "number": {"type": "number"},
    "boolean": {"type": "boolean"},
    "json": {"type": "object", "additionalProperties": True},
}
_NONE = object()


@dataclass(frozen=True, slots=True)
class Placeholder:
    """`default` is what counts where the model gives nothing; without one it must give something."""

    key: str
    description: str
    type: str
    default: Any = _NONE

    @property
    def required(self) -> bool:
        return self.default is _NONE

    @property
    def schema(self) -> dict[str, Any]:
        shown = {"description": self.description} if self.description else {}
        default = {} if self.required else {"default": self.default}
        return {**_TYPES[self.type], **shown, **default}


def placeholders_in(parameters: object) -> list[Placeholder]:
    """All of them, each key once. Raises `NodeFailed` where one is no key, or two of a key do not agree."""
    found: dict[str, Placeholder] = {}
    for text in _texts(parameters):
        for call in _CALL.finditer(text):
            placeholder = _read(text, call.end())
            known = found.setdefault(placeholder.key, placeholder)
            if (known.type, known.description) != (placeholder.type, placeholder.description):
                raise NodeFailed(f"$fromAI: key {placeholder.key!r} is used with different descriptions or types")
    return list(found.values())


def schema_of(placeholders: list[Placeholder]) -> dict[str, Any]:
    """The JSON schema of a tool's arguments."""
    return {
        "type": "object",
        "properties": {one.key: one.schema for one in placeholders},
        "required": [one.key for one in placeholders if one.required],
        "additionalProperties": False,
    }


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        if value.startswith("="):
            yield value
    elif isinstance(value, Mapping):
        for inner in value.values():
            yield from _texts(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _texts(inner)


def _read(text: str, at: int) -> Placeholder:
    arguments = _arguments(text, at)
    key = arguments[0] if arguments else ""
    if not isinstance(key, str) or not _KEY.fullmatch(key):
        raise NodeFailed(f"$fromAI: {str(key)[:100]!r} is no key: 1 to 64 letters, digits, _ and -")
    description = str(arguments[1] or "") if len(arguments) > 1 else ""
    kind = str(arguments[2] or "string").lower() if len(arguments) > 2 else "string"
    if kind not in _TYPES:
        raise NodeFailed(f"$fromAI: {kind[:50]!r} is no type of {key!r}: string, number, boolean or json")
    default = arguments[3] if len(arguments) > 3 else _NONE
    return Placeholder(key, description, kind, default)


def _arguments(text: str, at: int) -> list[Any]:
    """The literal arguments up to the closing parenthesis."""
    found: list[Any] = []
    piece = ""
    depth = 0
    while at < len(text):
        char = text[at]
        if char in "\"'`":
            end = _string_end(text, at)
            piece += json.dumps(_unquoted(text[at + 1 : end]))
            at = end + 1
            continue
        if char in "([{":
            depth += 1
        elif char in ")]}":
            if depth == 0:
                break
            depth -= 1
        if char == "," and depth == 0:
            found.append(_literal(piece))
            piece = ""
        else:
            piece += char
        at += 1
    if piece.strip():
        found.append(_literal(piece))
    return found


def _string_end(text: str, at: int) -> int:
    quote, at = text[at], at + 1
    while at < len(text) and text[at] != quote:
        at += 2 if text[at] == "\\" else 1
    return min(at, len(text))


_ESCAPED = {"n": "\n", "t": "\t", "r": "\r"}


def _unquoted(text: str) -> str:
    return re.sub(r"\\(.)", lambda match: _ESCAPED.get(match[1], match[1]), text, flags=re.DOTALL)


def _literal(piece: str) -> Any:
    piece = piece.strip()
    if piece in ("undefined", ""):
        return None
    try:
        return json.loads(piece)
    except ValueError:
        return piece
