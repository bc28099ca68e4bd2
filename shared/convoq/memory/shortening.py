"""A turn that is too large to be remembered, in short: the answer was given, so it is no error."""

from __future__ import annotations

import msgspec

from convoq.contract.memory import MAX_MESSAGE_BYTES, MAX_TURN_BYTES, Step, ToolUse, Turn

LEAST_BYTES = 1 << 10
"""Of a text that is cut. Where even that is too much together, the first tool rounds fall out."""


def shortened(turn: Turn) -> Turn:
    """The turn itself where it fits; else with marks in the middle of its longest texts, as short as they must be."""
    most = MAX_MESSAGE_BYTES
    short = _cut(turn, most)
    while _size(short) > MAX_TURN_BYTES and most > LEAST_BYTES:
        most //= 2
        short = _cut(turn, most)
    over, fallen = _size(short) - MAX_TURN_BYTES, 0
    while over > 0:
        over -= _step_size(short.steps[fallen])
        fallen += 1
    short = msgspec.structs.replace(short, steps=short.steps[fallen:])
    return turn if short == turn else short


def _cut(turn: Turn, most: int) -> Turn:
    steps = tuple(Step(_middle(step.text, most), tuple(_use(use, most) for use in step.calls)) for step in turn.steps)
    return msgspec.structs.replace(
        turn,
        user=_middle(turn.user, most),
        answer=_middle(turn.answer, most),
        system=_middle(turn.system, most),
        steps=steps,
    )


def _use(use: ToolUse, most: int) -> ToolUse:
    """Arguments stay JSON."""
    arguments = use.arguments
    if len(arguments.encode()) > most:
        arguments = msgspec.json.encode({"shortened": _middle(arguments, most // 2)}).decode()
    return msgspec.structs.replace(use, arguments=arguments, result=_middle(use.result, most))


def _middle(text: str, most: int) -> str:
    """The text in at most so many bytes of UTF-8, what is left out marked in its middle."""
    raw = text.encode()
    if len(raw) <= most:
        return text
    mark = f"\n\n[… {len(raw)} bytes in all: the middle is not remembered …]\n\n"
    half = (most - len(mark.encode())) // 2
    return raw[:half].decode(errors="ignore") + mark + raw[-half:].decode(errors="ignore")


def _size(turn: Turn) -> int:
    return sum(len(text.encode()) for text in (turn.user, turn.answer, turn.system)) + sum(map(_step_size, turn.steps))


def _step_size(step: Step) -> int:
    return len(step.text.encode()) + sum(len(use.arguments.encode()) + len(use.result.encode()) for use in step.calls)
