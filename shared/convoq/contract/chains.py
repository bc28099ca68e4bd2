"""What a chain or an agent is to the node that it is connected to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol


class Chain(Protocol):
    """Answers one input. `run` takes and gives a JSON object (`{"input": …}` -> `{"output": …}`); it raises
    `NodeFailed`."""

    name: str

    async def run(self, given: Mapping[str, Any]) -> Mapping[str, Any]: ...
