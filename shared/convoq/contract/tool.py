"""What a model may call, and the names it may call it by."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from convoq.contract.model import ToolSpec

MAX_NAME_CHARS = 64


class Tool(Protocol):
    """Something a model may call. `call` gives the text the model is told; it raises `ToolFailed` with a reason."""

    @property
    def spec(self) -> ToolSpec: ...

    @property
    def pure(self) -> bool:
        """Whether calling it twice does no harm."""
        ...

    async def call(self, arguments: Mapping[str, Any]) -> str: ...


class Toolbox(Protocol):
    """A tool connection that brings several tools (an MCP server's, say)."""

    @property
    def tools(self) -> Sequence[Tool]: ...


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
