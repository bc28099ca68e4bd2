"""What tools that take one text have in common."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from convoq.contract.model import ToolSpec
from convoq.contract.tool import tool_name
from convoq.errors import ToolFailed


class TextTool:
    """`answer` gives the text that the model is told of the text that it gave."""

    def __init__(
        self,
        name: str,
        description: str,
        answer: Callable[[str], Awaitable[str]],
        *,
        about: str = "",
        pure: bool = True,
    ) -> None:
        given = {"type": "string", **({"description": about} if about else {})}
        schema = {"type": "object", "properties": {"input": given}, "required": ["input"]}
        self.spec = ToolSpec(tool_name(name), description, schema)
        self.pure = pure
        self._answer = answer

    async def call(self, arguments: Mapping[str, Any]) -> str:
        given = arguments.get("input", arguments.get("query"))
        if given is None and len(arguments) == 1:
            given = next(iter(arguments.values()))  # the one word it had to say, under a name of the model's own
        if isinstance(given, bool) or not isinstance(given, str | int | float):
            raise ToolFailed("argument 'input' must be a text")
        return await self._answer(str(given))
