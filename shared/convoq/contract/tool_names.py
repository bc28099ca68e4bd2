"""Names that a model may call a tool by: providers take letters, digits, `_` and `-`, at most 64."""

from __future__ import annotations

import re
from collections.abc import Sequence

MAX_NAME_CHARS = 64


def tool_name(name: str) -> str:
    """A node's name as a tool's name, each run of other characters turned into one `_` (n8n's rule)."""
    return re.sub(r"[^A-Za-z0-9_-]+", "_", name)[:MAX_NAME_CHARS] or "tool"


def unique_names(names: Sequence[str]) -> list[str]:
    """The names, those seen before with a number added."""
    unique: list[str] = []
    for name in names:
        candidate, count = tool_name(name), 1
        while candidate in unique:
            count += 1
            suffix = f"_{count}"
            candidate = tool_name(name)[: MAX_NAME_CHARS - len(suffix)] + suffix
        unique.append(candidate)
    return unique
