"""Turns as the messages that n8n stores (LangChain's form), and turns again out of whatever others have stored.

    {"type": "human", "data": {"content", "additional_kwargs", "response_metadata"}}
    {"type": "ai", "data": {"content", "tool_calls": [{"id", "name", "args", "type"}], "invalid_tool_calls", …}}
    {"type": "tool", "data": {"content", "tool_call_id", "name", …}}

What n8n has no place for (turn id, times, cut off) goes into the user message's `additional_kwargs`, as
`{"convoq": {"turn", "started", "ended", "cut_off"?}}`, which n8n keeps and does not look at. A system message is a turn
of its own. `hideFromUI` is n8n's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from convoq.contract.memory import Step, ToolUse, Turn

MARK = "convoq"
HIDDEN = "hideFromUI"
Stored = dict[str, Any]


def _plain(value: object) -> object:
    """What a database gives in types of its own: MongoDB's 64-bit numbers, ids, decimals."""
    return int(value) if isinstance(value, int) else str(value)


_encode = msgspec.json.Encoder(enc_hook=_plain).encode
_decode = msgspec.json.Decoder().decode


def encode_message(message: Stored) -> bytes:
    return _encode(message)


def decode_message(raw: bytes | str) -> object:
    """None where it is no JSON."""
    try:
        return _decode(raw)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None


def stored_messages(turn: Turn) -> list[Stored]:
    """The messages of a turn, oldest first. n8n writes an empty list for a reply that only calls tools."""
    mark: Stored = {"turn": turn.id, "started": turn.started, "ended": turn.ended}
    if turn.cut_off:
        mark["cut_off"] = True
    hidden = {HIDDEN: True} if turn.hidden else {}
    marked = {MARK: mark, **hidden}
    if turn.system and not turn.user and not turn.answer:
        return [_stored("system", turn.system, {}, marked)]
    stored = [_stored("system", turn.system, {}, hidden)] if turn.system else []
    stored.append(_stored("human", turn.user, {}, marked))
    for step in turn.steps:
        calls = [
            {"id": use.id, "name": use.name, "args": _object(use.arguments), "type": "tool_call"} for use in step.calls
        ]
        stored.append(_stored("ai", step.text or [], {"tool_calls": calls, "invalid_tool_calls": []}))
        for use in step.calls:
            told: Stored = {"tool_call_id": use.id, "name": use.name}
            if use.failed:
                told["status"] = "error"
            stored.append(_stored("tool", use.result, told))
    if turn.answer or not turn.cut_off:
        stored.append(_stored("ai", turn.answer, {"tool_calls": [], "invalid_tool_calls": []}, hidden))
    return stored


def _stored(kind: str, content: object, more: Stored, kwargs: Mapping[str, Any] = {}) -> Stored:
    return {
        "type": kind,
        "data": {"content": content, **more, "additional_kwargs": dict(kwargs), "response_metadata": {}},
    }


def mark_of(turn: Turn) -> bytes:
    """What the JSON of a turn's first message holds and no other's does: in a text its quotes would be escaped."""
    return b'"additional_kwargs":{"%s":{"turn":%s,' % (MARK.encode(), _encode(turn.id))


@dataclass(slots=True)
class _Open:
    """A turn while its messages are read."""

    users: list[str]
    mark: Mapping[str, Any]
    hidden: bool
    steps: list[Step] = field(default_factory=list)
    answers: list[str] = field(default_factory=list)
    text: str = ""
    waiting: list[ToolUse] = field(default_factory=list)
    done: list[ToolUse] = field(default_factory=list)

    @property
    def answered(self) -> bool:
        return bool(self.answers or self.steps or self.waiting or self.done)


class _Reader:
    def __init__(self) -> None:
        self.turns: list[Turn] = []
        self.notes: Counter[str] = Counter()
        self._turn: _Open | None = None

    def read(self, message: object) -> None:
        data = message.get("data") if isinstance(message, dict) else None
        if not isinstance(message, dict) or not isinstance(data, dict):
            self.notes["messages that are none were left out"] += 1
            return
        text = _text(data.get("content"))
        match message.get("type"):
            case "human":
                self._human(text, data)
            case "ai" if self._turn is not None:
                self._ai(self._turn, text, data)
            case "tool" if self._turn is not None:
                self._tool(self._turn, text, data)
            case "ai" | "tool":
                self.notes["messages before the first question were left out"] += 1
            case "system":
                self.end()
                mark, hidden = _kwargs(data)
                self.turns.append(_turn(mark, "", "", (), system=text, hidden=hidden))
            case _:
                self.notes["messages of unknown types were left out"] += 1

    def _human(self, text: str, data: Mapping[str, Any]) -> None:
        mark, hidden = _kwargs(data)
        if self._turn is not None and not self._turn.answered and not self._turn.mark:
            self._turn.users.append(text)
            self._turn.mark = mark
            self.notes["questions in a row were joined"] += 1
            return
        self.end()
        self._turn = _Open([text], mark, hidden)

    def _ai(self, turn: _Open, text: str, data: Mapping[str, Any]) -> None:
        self._end_step(turn)
        calls = [call for call in _list(data.get("tool_calls")) if isinstance(call, dict)]
        if calls:
            turn.text = "\n\n".join(filter(None, (*turn.answers, text)))
            turn.answers.clear()
            turn.waiting = [
                ToolUse(str(call.get("id") or ""), str(call.get("name") or ""), _encode(call.get("args")).decode(), "")
                for call in calls
            ]
        elif text or not turn.answers:
            if turn.answers:
                self.notes["answers in a row were joined"] += 1
            turn.answers.append(text)

    def _tool(self, turn: _Open, text: str, data: Mapping[str, Any]) -> None:
        call_id = str(data.get("tool_call_id") or "")
        use = next((use for use in turn.waiting if use.id == call_id), None)
        if use is None:
            self.notes["tool results without a call were left out"] += 1
            return
        turn.waiting.remove(use)
        turn.done.append(msgspec.structs.replace(use, result=text, failed=data.get("status") == "error"))

    def _end_step(self, turn: _Open) -> None:
        if turn.waiting:
            self.notes["tool calls without a result were left out"] += len(turn.waiting)
        if turn.done:
            turn.steps.append(Step(turn.text, tuple(turn.done)))
        elif turn.text:
            turn.answers.append(turn.text)
        turn.text, turn.waiting, turn.done = "", [], []

    def end(self) -> None:
        turn, self._turn = self._turn, None
        if turn is None:
            return
        self._end_step(turn)
        answer = "\n\n".join(filter(None, turn.answers))
        cut_off = turn.mark.get("cut_off") is True
        if not turn.answers and not cut_off:
            self.notes["questions without an answer were marked as cut off"] += 1
            cut_off = True
        user = "\n\n".join(filter(None, turn.users))
        self.turns.append(_turn(turn.mark, user, answer, tuple(turn.steps), cut_off=cut_off, hidden=turn.hidden))


def _turn(mark: Mapping[str, Any], user: str, answer: str, steps: tuple[Step, ...], **more: Any) -> Turn:
    turn_id, times = mark.get("turn"), (mark.get("started"), mark.get("ended"))
    started, ended = (float(time) if isinstance(time, int | float) else 0.0 for time in times)
    return Turn(turn_id if isinstance(turn_id, str) else "", user, answer, steps, started, ended, **more)


def read_turns(messages: Iterable[object]) -> tuple[list[Turn], list[str]]:
    """The turns in order, nothing that was said left out if it can be helped, and notes of what was put right."""
    reader = _Reader()
    for message in messages:
        reader.read(message)
    reader.end()
    return reader.turns, [f"{what} ({count})" for what, count in reader.notes.items()]


def _text(content: object) -> str:
    """LangChain's content: a text, or a list of texts and blocks."""
    if isinstance(content, str):
        return content
    parts: list[str] = []
    for block in _list(content):
        if isinstance(block, str):
            parts.append(block)
        elif isinstance(block, dict):
            kind, text = block.get("type"), block.get("text")
            if isinstance(text, str):
                parts.append(text)
            elif kind not in ("tool_use", "thinking", "reasoning"):
                parts.append(f"[{kind}]")
    return "\n".join(parts)


def _object(arguments: str) -> object:
    value = decode_message(arguments)
    return value if isinstance(value, dict) else {}


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: object) -> Sequence[Any]:
    return value if isinstance(value, list) else ()


def _kwargs(data: Mapping[str, Any]) -> tuple[Mapping[str, Any], bool]:
    """convoq's mark, and whether the message is hidden."""
    kwargs = _mapping(data.get("additional_kwargs"))
    return _mapping(kwargs.get(MARK)), kwargs.get(HIDDEN) is True
