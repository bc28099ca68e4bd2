"""Which run this is, how long it may take, and how it is told to end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

Mode = Literal["production", "manual"]


@dataclass(frozen=True, slots=True)
class ExecutionInfo:
    """`started` is in seconds since 1970; `attempt` counts from 1, `depth` the workflows that called this one. `token`
    is that of the claim under which it runs, empty where nobody's writes are fenced."""

    id: str
    attempt: int
    workflow_id: str
    workflow_name: str
    session_id: str
    mode: Mode
    started: float
    depth: int = 0
    token: str = field(default="", repr=False)


class Cancellation:
    """The signal that a run is to end. What awaits in the event loop is cancelled by itself; whatever runs elsewhere
    (a thread, another process) asks `requested`, or is told by a callback.

    `by_person` says that somebody asked for it: what was said so far is to be kept.
    """

    __slots__ = ("_callbacks", "by_person", "requested")

    def __init__(self) -> None:
        self.requested = False
        self.by_person = False
        self._callbacks: dict[object, Callable[[], None]] = {}

    def request(self, *, by_person: bool = False) -> None:
        """Told twice, it is the first time that counts."""
        if self.requested:
            return
        self.requested, self.by_person = True, by_person
        for callback in self._callbacks.values():
            callback()
        self._callbacks.clear()

    def on_request(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Have `callback` called, at once where the signal came already; what is given back takes that back."""
        if self.requested:
            callback()
            return lambda: None
        key = object()
        self._callbacks[key] = callback
        return lambda: self._callbacks.pop(key, None) and None
