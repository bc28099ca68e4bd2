"""What a conversation remembers, as a contract.

A memory holds turns and is cut only between turns, so a tool call is never parted from its result.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

import msgspec

from convoq.models.base import AssistantMessage, Message, ToolCall, ToolMessage, UserMessage

MAX_TURN_BYTES = 1 << 20
"""A turn is read again with every message of its session: what is larger as JSON is refused."""


class ToolUse(msgspec.Struct, frozen=True, omit_defaults=True):
    """A call the model made, with what came back. `arguments` is JSON text."""

    id: str
    name: str
    arguments: str
    result: str
    failed: bool = False


class Step(msgspec.Struct, frozen=True, omit_defaults=True):
    """One reply of the model that asked for tools: the text beside the calls, and the calls."""

    text: str
    calls: tuple[ToolUse, ...]

    def messages(self) -> Iterator[Message]:
        yield AssistantMessage(self.text, tuple(ToolCall(use.id, use.name, use.arguments) for use in self.calls))
        for use in self.calls:
            yield ToolMessage(use.result, use.id, use.name)


class Turn(msgspec.Struct, frozen=True, omit_defaults=True):
    """A user message and all that answered it. Times are seconds since 1970.

    `id` names the execution and the agent run that wrote it: appending the same id again changes nothing.
    `cut_off` marks an answer that was stopped before its end.
    """

    id: str
    user: str
    answer: str
    steps: tuple[Step, ...] = ()
    started: float = 0.0
    ended: float = 0.0
    cut_off: bool = False

    def messages(self) -> Iterator[Message]:
        """The turn as a strict provider takes it: user, then each calls/results pair, then the answer."""
        yield UserMessage(self.user)
        for step in self.steps:
            yield from step.messages()
        if self.answer or not self.cut_off:  # providers refuse an empty message
            yield AssistantMessage(self.answer)


class Memory(Protocol):
    """One session's history as one agent sees it.

    `load` gives the last `window` turns, oldest first. `append` adds a whole turn or nothing, trims and renews the
    time-to-live in the same step, does nothing for an id that is already there, and raises `Fenced` when the
    execution was taken over meanwhile. All raise `MemoryFailed` where the backend cannot answer.
    """

    window: int

    async def load(self) -> Sequence[Turn]: ...

    async def append(self, turn: Turn) -> None: ...

    async def replace(self, turns: Sequence[Turn]) -> None: ...

    async def clear(self) -> None: ...
