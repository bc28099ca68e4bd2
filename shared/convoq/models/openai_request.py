"""The request of OpenAI's chat completions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from convoq.contract.model import AssistantMessage, Message, ModelSettings, ToolMessage, ToolSpec
from convoq.models.echo import Echo

_encode = msgspec.json.Encoder().encode


def request(
    model: str,
    messages: Sequence[Message],
    tools: Sequence[ToolSpec],
    settings: ModelSettings,
    *,
    openai: bool,
    echo: Echo,
) -> bytes:
    """The body of a streamed request. `openai`: the host is OpenAI's own, which has renamed `max_tokens`."""
    body: dict[str, Any] = {
        "model": model,
        "messages": [_message(message, echo) for message in messages],
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    if tools:
        body["tools"] = [{"type": "function", "function": tool} for tool in tools]
    optional = {
        "temperature": settings.temperature,
        "max_completion_tokens" if openai else "max_tokens": settings.max_tokens,
        "top_p": settings.top_p,
        "frequency_penalty": settings.frequency_penalty,
        "presence_penalty": settings.presence_penalty,
        "response_format": {"type": settings.response_format} if settings.response_format else None,
        "reasoning_effort": settings.reasoning_effort,
    }
    body.update((name, value) for name, value in optional.items() if value is not None)
    return _encode(body)


def _message(message: Message, echo: Echo) -> object:
    if isinstance(message, AssistantMessage):
        wire: dict[str, Any] = {"role": "assistant", "content": message.content, **echo.of_message(message)}
        if message.tool_calls:
            wire["tool_calls"] = [
                {
                    "id": call.id,
                    "type": "function",
                    "function": {"name": call.name, "arguments": call.arguments},
                    **echo.of_call(call),
                }
                for call in message.tool_calls
            ]
        return wire
    if isinstance(message, ToolMessage):
        return {"role": "tool", "tool_call_id": message.tool_call_id, "content": message.content}
    return message  # a system or user message is on the wire what it is here
