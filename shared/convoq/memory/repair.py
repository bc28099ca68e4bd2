"""Turns as elements of a list, and whole turns again out of whatever the list holds.

Two elements a turn: `{"role": "user", "turn": id, "content", "at"}` and `{"role": "assistant", "turn": id, "content",
"steps", "at"}`, and what is rare where it is so. Others may write to the list, or trim it: what is not a whole turn is
left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from convoq.contract.memory import History, Step, ToolUse, Turn
from convoq.contract.tool import tool_name


class UserElement(msgspec.Struct, tag="user", tag_field="role", omit_defaults=True):
    turn: str
    content: str
    at: float = 0.0
    system: str = ""
    hidden: bool = False


class AssistantElement(msgspec.Struct, tag="assistant", tag_field="role", omit_defaults=True):
    turn: str
    content: str
    at: float = 0.0
    steps: tuple[Step, ...] = ()
    cut_off: bool = False
    system: str = ""
    hidden: bool = False


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(UserElement | AssistantElement).decode


def elements_of(turn: Turn) -> tuple[bytes, bytes]:
    return (
        _encode(UserElement(turn.id, turn.user, turn.started, turn.system, turn.hidden)),
        _encode(AssistantElement(turn.id, turn.answer, turn.ended, turn.steps, turn.cut_off, turn.system, turn.hidden)),
    )


def turns_of(elements: Sequence[bytes]) -> tuple[list[Turn], list[str]]:
    """The whole turns in order, and notes of what was left out."""
    turns: list[Turn] = []
    user: UserElement | None = None
    for raw in elements:
        try:
            element = _decode(raw)
        except (msgspec.DecodeError, UnicodeDecodeError):
            element = None
        if isinstance(element, AssistantElement) and user is not None and element.turn == user.turn:
            turns.append(
                Turn(
                    user.turn,
                    user.content,
                    element.content,
                    element.steps,
                    user.at,
                    element.at,
                    element.cut_off,
                    element.system,
                    element.hidden,
                )
            )
        user = element if isinstance(element, UserElement) else None
    left_out = len(elements) - 2 * len(turns)
    return turns, [f"{left_out} stored elements are no whole turn: left out"] if left_out else []


def sendable(turns: Iterable[Turn], notes: Sequence[str] = ()) -> History:
    """The turns with what a strict provider would refuse put right: steps without calls, arguments that are no JSON
    object, tool names that no tool can have, call ids that are missing or used twice. Adds notes of it."""
    known: set[str] = set()
    mended: list[Turn] = []
    count = 0
    for turn in turns:
        steps = turn.steps
        if steps:
            steps = tuple(
                msgspec.structs.replace(step, calls=tuple(_mended(use, known) for use in step.calls))
                for step in steps
                if step.calls
            )
            if steps != turn.steps:
                count += 1
                turn = msgspec.structs.replace(turn, steps=steps)
        mended.append(turn)
    return History(mended, [*notes, f"tool calls of {count} turns were mended"] if count else notes)


def _mended(use: ToolUse, known: set[str]) -> ToolUse:
    call_id, number = use.id or "call", 1
    while call_id in known:
        number += 1
        call_id = f"{use.id or 'call'}_{number}"
    known.add(call_id)
    arguments, name = use.arguments, tool_name(use.name)
    if not _is_object(arguments):
        arguments = "{}"
    if (call_id, name, arguments) == (use.id, use.name, use.arguments):
        return use
    return msgspec.structs.replace(use, id=call_id, name=name, arguments=arguments)


def _is_object(text: str) -> bool:
    try:
        return isinstance(msgspec.json.decode(text), dict)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return False
