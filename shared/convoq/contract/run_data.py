"""What is kept of a node's run for people."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Tokens:
    """What a model's provider counted; `reasoning` is a part of `completion`."""

    prompt: int = 0
    completion: int = 0
    reasoning: int = 0


@dataclass(slots=True)
class NodeRun:
    """One run of one node. `started` in seconds since 1970, `took_ms` in milliseconds.

    `connection` tells in which role a sub-node ran; `inputs` and `outputs` are lists of items' JSON, one for each input
    and output; `error` is `{"code", "message"}`; `notes` are sentences about what was odd though it worked.
    """

    node: str
    run_index: int
    started: float
    took_ms: float = 0.0
    connection: str = "main"
    inputs: list[list[dict[str, Any]]] = field(default_factory=list)
    outputs: list[list[dict[str, Any]]] = field(default_factory=list)
    error: dict[str, Any] | None = None
    tokens: Tokens | None = None
    notes: list[str] = field(default_factory=list)
