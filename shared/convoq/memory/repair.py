"""Turns as elements of a list, and whole turns again out of whatever the list holds.

Two elements a turn: `{"role": "user", "turn": id, "content", "at"}` and `{"role": "assistant", "turn": id, "content",
"steps", "at"}`. Others may write to the list, or trim it: what is not a whole turn is left out.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from convoq.memory.base import Step, Turn


class UserElement(msgspec.Struct, tag="user", tag_field="role"):
    turn: str
    content: str
    at: float = 0.0


class AssistantElement(msgspec.Struct, tag="assistant", tag_field="role", omit_defaults=True):
    turn: str
    content: str
    at: float = 0.0
    steps: tuple[Step, ...] = ()
    cut_off: bool = False


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(UserElement | AssistantElement).decode


def elements_of(turn: Turn) -> tuple[bytes, bytes]:
    return (
        _encode(UserElement(turn.id, turn.user, turn.started)),
        _encode(AssistantElement(turn.id, turn.answer, turn.ended, turn.steps, turn.cut_off)),
    )


def turns_of(elements: Sequence[bytes]) -> tuple[list[Turn], int]:
    """The whole turns in order, and how many elements were left out."""
    turns: list[Turn] = []
    user: UserElement | None = None
    for raw in elements:
        try:
            element = _decode(raw)
        except (msgspec.DecodeError, UnicodeDecodeError):
            element = None
        if isinstance(element, AssistantElement) and user is not None and element.turn == user.turn:
            steps = tuple(step for step in element.steps if step.calls)
            turns.append(
                Turn(user.turn, user.content, element.content, steps, user.at, element.at, cut_off=element.cut_off)
            )
        user = element if isinstance(element, UserElement) else None
    return turns, len(elements) - 2 * len(turns)
