"""What a conversation remembers, as a contract.

A memory holds turns and is cut only between turns, so a tool call is never parted from its result.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

import msgspec

from convoq.contract.model import AssistantMessage, Message, SystemMessage, ToolCall, ToolMessage, UserMessage
from convoq.errors import MemoryFailed

MAX_MESSAGE_BYTES = 512 << 10
"""Of one text in a turn: the user's, the answer's, a tool result's. UTF-8."""
MAX_TURN_BYTES = 1 << 20
"""Of all texts of a turn: it is read again with every message of its session."""
MAX_SESSION_BYTES = 32 << 20
"""Of what a session's window may hold or bring: some eight million tokens, far beyond any model."""
MAX_WINDOW = 10_000
"""Turns. Where a node type has no window, this is it."""
NO_TEXT = "[no text]"
"""Stands for a message that was empty, as cut-off answers may be: providers refuse an empty one."""


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
    `cut_off` marks an answer that was stopped before its end. `system` is a system message that was put into the
    history here, as a turn of its own. `hidden` is not for the chat's eyes.
    """

    id: str
    user: str
    answer: str
    steps: tuple[Step, ...] = ()
    started: float = 0.0
    ended: float = 0.0
    cut_off: bool = False
    system: str = ""
    hidden: bool = False

    def messages(self) -> Iterator[Message]:
        """The turn as a strict provider takes it: user, then each calls/results pair, then the answer."""
        if self.system:  # the agent puts it to its own system message: few providers take one further down
            yield SystemMessage(self.system)
            if not self.user and not self.answer:
                return
        yield UserMessage(self.user or NO_TEXT)
        for step in self.steps:
            yield from step.messages()
        yield AssistantMessage(self.answer or NO_TEXT)  # without it the next user message would follow tool results


class History(list[Turn]):
    """Loaded turns; `notes` tell people what had to be mended."""

    def __init__(self, turns: Iterable[Turn] = (), notes: Sequence[str] = ()) -> None:
        super().__init__(turns)
        self.notes = tuple(notes)


class Memory(Protocol):
    """One session's history as one agent sees it.

    `load` gives the last `window` turns, oldest first, fit to be sent to a strict provider; a `History` where something
    had to be mended for that. `append` adds a whole turn or nothing, trims and renews the time-to-live in the same
    step, does nothing for an id that is already there, and raises `Fenced` when the execution was taken over meanwhile.
    All raise `MemoryFailed` where the backend cannot answer or a size is over its limit.
    """

    window: int

    async def load(self) -> Sequence[Turn]: ...

    async def append(self, turn: Turn) -> None: ...

    async def replace(self, turns: Sequence[Turn]) -> None: ...

    async def clear(self) -> None: ...


def check_size(*turns: Turn) -> None:
    """Raises `MemoryFailed` naming the text that is too large to be remembered, or the turn."""
    for turn in turns:
        total = 0
        for what, text in _texts(turn):
            size = len(text.encode())
            total += size
            if size > MAX_MESSAGE_BYTES:
                raise _too_large(turn, f"{what} has {size}", MAX_MESSAGE_BYTES)
        if total > MAX_TURN_BYTES:
            raise _too_large(turn, f"it has {total}", MAX_TURN_BYTES)


def _too_large(turn: Turn, what: str, most: int) -> MemoryFailed:
    return MemoryFailed(f"turn {turn.id!r} is too large to be remembered: {what} bytes ({most} allowed)")


def _texts(turn: Turn) -> Iterator[tuple[str, str]]:
    yield "the system message", turn.system
    yield "the user's message", turn.user
    for step in turn.steps:
        yield "the text beside a tool call", step.text
        for use in step.calls:
            yield f"the arguments of {use.name!r}", use.arguments
            yield f"the result of {use.name!r}", use.result
    yield "the answer", turn.answer


def session_too_large(where: str) -> MemoryFailed:
    return MemoryFailed(
        f"the history of {where} is larger than {MAX_SESSION_BYTES} bytes: use a smaller window, or clear the session"
    )
