"""What the strictest of the providers take of a history."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence

from convoq.contract.memory import Turn
from convoq.contract.model import AssistantMessage, Message, SystemMessage, ToolMessage, UserMessage


def sent(turns: Iterable[Turn]) -> list[Message]:
    """The messages as an agent sends them: system messages go to its own."""
    return [message for turn in turns for message in turn.messages() if not isinstance(message, SystemMessage)]


def check(turns: Sequence[Turn]) -> None:
    """It begins with a user message; then, in turn: replies that call tools with the result of each call right after
    them, and one answer. Nothing is empty, no call id comes twice, arguments are JSON objects."""
    ids: set[str] = set()
    messages = sent(turns)
    position = 0
    while position < len(messages):
        user = messages[position]
        assert isinstance(user, UserMessage), messages[position - 1 : position + 1]
        assert user.content
        position += 1
        while isinstance(reply := messages[position], AssistantMessage) and reply.tool_calls:
            results = messages[position + 1 : position + 1 + len(reply.tool_calls)]
            for call, result in zip(reply.tool_calls, results, strict=True):
                assert isinstance(result, ToolMessage)
                assert call.id == result.tool_call_id
                assert call.id
                assert call.id not in ids
                ids.add(call.id)
                assert re.fullmatch(r"[A-Za-z0-9_-]{1,64}", call.name)
                assert isinstance(json.loads(call.arguments), dict)
            position += 1 + len(results)
        assert isinstance(reply, AssistantMessage)
        assert reply.content
        position += 1
