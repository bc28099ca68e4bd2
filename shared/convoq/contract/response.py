"""An answer to the HTTP request that started an execution, as a node of the workflow makes it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from convoq.contract.items import Binary


@dataclass(frozen=True, slots=True)
class HttpResponse:
    """Names of `headers` are lower-case. The body is a text, or a file by reference."""

    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    body: str = ""
    file: Binary | None = None
