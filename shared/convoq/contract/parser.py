"""What makes a value of a model's words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol


class OutputParser(Protocol):
    """`instructions` is what the model is told; `schema` is the JSON schema of the value, None where there is none.

    `parse` raises `OutputNotParsed`, with what is wrong with the text and the text's beginning.
    """

    @property
    def instructions(self) -> str: ...

    @property
    def schema(self) -> Mapping[str, Any] | None: ...

    async def parse(self, text: str) -> Any: ...
