"""Turns as single messages for people and other nodes, and turns again out of such messages.

    {"role": "user", "content", "at"?}                        at: seconds since 1970
    {"role": "assistant", "content", "at"?, "tool_calls"?: [{"id", "name", "arguments"}]}
    {"role": "tool", "content", "tool_call_id", "name"}
    {"role": "system", "content"}
and `"hidden": true` where a message is not for the chat's eyes. Only what was really said is a message: the stand-ins
that a strict provider is sent are not.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from convoq.contract.memory import Step, ToolUse, Turn
from convoq.errors import NodeFailed

ROLES = {"human": "user", "ai": "assistant", "bot": "assistant", "model": "assistant"}
"""Other names of roles: n8n's, and what chat widgets use."""
MAX_MESSAGES = 20_000

JsonMessage = dict[str, Any]


def messages_of(turn: Turn) -> list[JsonMessage]:
    found: list[JsonMessage] = []
    if turn.system:
        found.append({"role": "system", "content": turn.system})
    if turn.user:
        found.append({"role": "user", "content": turn.user, **_at(turn.started)})
    for step in turn.steps:
        calls = [{"id": use.id, "name": use.name, "arguments": use.arguments} for use in step.calls]
        found.append({"role": "assistant", "content": step.text, "tool_calls": calls})
        for use in step.calls:
            found.append({"role": "tool", "content": use.result, "tool_call_id": use.id, "name": use.name})
    if turn.answer:
        found.append({"role": "assistant", "content": turn.answer, **_at(turn.ended)})
    return [{**message, "hidden": True} for message in found] if turn.hidden else found


def _at(seconds: float) -> JsonMessage:
    return {"at": seconds} if seconds else {}


def turns_from(messages: Iterable[Mapping[str, Any]], name: str, now: float) -> list[Turn]:
    """Whole turns: calls without results and results without calls are left out. `name` begins the turns' ids.

    Raises `NodeFailed` naming the first message that is none.
    """
    builder = _Builder(name, now)
    for position, message in enumerate(messages):
        if position >= MAX_MESSAGES:
            raise NodeFailed(f"more than {MAX_MESSAGES} messages")
        builder.add(message, position)
    builder.end()
    return builder.turns


@dataclass(slots=True)
class _Builder:
    name: str
    now: float
    turns: list[Turn] = field(default_factory=list)
    _user: str = ""
    _steps: list[Step] = field(default_factory=list)
    _step: tuple[str, list[ToolUse], dict[str, str]] | None = None
    _started: float = 0.0
    _hidden: bool | None = None

    def add(self, message: Mapping[str, Any], position: int) -> None:
        kind = message.get("role", message.get("type"))
        role = ROLES.get(str(kind), str(kind))
        content = next((message[key] for key in ("content", "message", "text") if key in message), None)
        if role not in ("user", "assistant", "tool", "system"):
            raise NodeFailed(f"message {position}: role {str(kind)[:40]!r} is not user, assistant, tool or system")
        if not isinstance(content, str):
            raise NodeFailed(f"message {position}: content is {type(content).__name__}, not a text")
        hidden = bool(message.get("hidden", message.get("hideFromUI")))
        if role == "tool":
            self._result(str(message.get("tool_call_id") or ""), content)
            return
        self._end_step()
        at = message.get("at")
        seconds = float(at) if isinstance(at, int | float) and not isinstance(at, bool) else self.now
        if role != "assistant" or (self._hidden is not None and hidden != self._hidden):
            self.end()
        if role == "system":
            self._keep(hidden, system=content)
        elif role == "user":
            self._user, self._started, self._hidden = content, seconds, hidden
        elif calls := _calls(message.get("tool_calls"), position):
            self._started = self._started or seconds
            self._hidden = hidden
            self._step = (content, calls, {})
        else:
            self._keep(hidden, answer=content, ended=seconds)

    def end(self) -> None:
        """What was asked and is not answered stays a turn of its own."""
        self._end_step()
        if self._user or self._steps:
            self._keep(bool(self._hidden), cut_off=True)

    def _keep(
        self, hidden: bool, *, answer: str = "", ended: float = 0.0, cut_off: bool = False, system: str = ""
    ) -> None:
        turn = Turn(
            f"{self.name}:{len(self.turns)}",
            self._user,
            answer,
            tuple(self._steps),
            self._started,
            ended,
            cut_off,
            system,
            hidden,
        )
        if turn.user or turn.answer or turn.steps or turn.system:
            self.turns.append(turn)
        self._user, self._started, self._hidden = "", 0.0, None
        self._steps = []

    def _result(self, call_id: str, content: str) -> None:
        if self._step is not None:
            self._step[2].setdefault(call_id, content)

    def _end_step(self) -> None:
        if self._step is None:
            return
        text, calls, results = self._step
        self._step = None
        done = tuple(msgspec.structs.replace(use, result=results[use.id]) for use in calls if use.id in results)
        if done:
            self._steps.append(Step(text, done))


def _calls(given: object, position: int) -> list[ToolUse]:
    calls = []
    for call in given if isinstance(given, list) else ():
        if not isinstance(call, dict) or not isinstance(call.get("name"), str):
            raise NodeFailed(f"message {position}: a tool call has no name")
        arguments = call.get("arguments", call.get("args", {}))
        text = arguments if isinstance(arguments, str) else msgspec.json.encode(arguments).decode()
        calls.append(ToolUse(str(call.get("id") or ""), call["name"], text, ""))
    return calls


def flat(items: Sequence[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    """The messages that items bring: each is one, or has a list of them as `messages`, where n8n's `{"human", "ai"}`
    pairs count, too."""
    for item in items:
        inner = item.get("messages")
        if not isinstance(inner, list):
            yield item
            continue
        for message in inner:
            if not isinstance(message, dict):
                raise NodeFailed(f"'messages' holds a {type(message).__name__}, not a message")
            if "role" in message or "type" in message:
                yield message
            else:
                yield from ({"role": kind, "content": text} for kind, text in message.items())
