"""What some servers want to be told again of what they said, or they refuse to go on after a tool call."""

from __future__ import annotations

from typing import Any

from convoq.contract.model import AssistantMessage, ToolCall

MOST = 200
"""Calls whose additions are kept: those of one turn."""


class Echo:
    """Of one server, learned from its answers.

    `field` is where it tells what the model thinks: DeepSeek and Kimi want that back with the calls of the turn, and an
    empty one with those of earlier turns, whose reasoning is not kept. Google puts a signature into a call's
    `extra_content`, and wants it back with the call.
    """

    def __init__(self, field: str = "") -> None:
        self.field = field
        self._extras: dict[str, Any] = {}

    def learn(self, field: str, extras: dict[str, Any]) -> None:
        self.field = field or self.field
        self._extras.update(extras)
        while len(self._extras) > MOST:
            del self._extras[next(iter(self._extras))]

    def of_message(self, message: AssistantMessage) -> dict[str, Any]:
        return {self.field: message.reasoning} if self.field and message.tool_calls else {}

    def of_call(self, call: ToolCall) -> dict[str, Any]:
        extra = self._extras.get(call.id)
        return {} if extra is None else {"extra_content": extra}
