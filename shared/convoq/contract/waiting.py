"""A node that waits: the execution is parked, holds no worker, and goes on where it stopped."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

For = Literal["time", "message", "call"]


@dataclass(frozen=True, slots=True)
class Wait:
    """What a node gives in place of its outputs.

    `for_` is what it waits for: a time, the next chat message of its session, or a call of its resume address. `until`
    is in seconds since 1970: with `time` when to go on, else when to give up (None: the setting's limit). `state` is
    JSON that comes back to the node's `resume`; `say` is what the chat is told meanwhile.
    """

    for_: For
    until: float | None = None
    state: Mapping[str, Any] = field(default_factory=dict)
    say: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Resumed:
    """Why a waiting node goes on: its time has come (`time`), or `given` arrived; `expired` where nothing did."""

    why: Literal["time", "given", "expired"]
    given: Mapping[str, Any] = field(default_factory=dict)
