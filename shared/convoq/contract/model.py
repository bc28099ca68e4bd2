"""What a chat model is to the agent: messages and tools in, deltas out."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any, Protocol

import msgspec


class ToolCall(msgspec.Struct, frozen=True):
    """`arguments` is the JSON text that the model wrote: hostile until parsed."""

    id: str
    name: str
    arguments: str


class SystemMessage(msgspec.Struct, frozen=True, tag="system", tag_field="role"):
    content: str


class UserMessage(msgspec.Struct, frozen=True, tag="user", tag_field="role"):
    content: str


class AssistantMessage(msgspec.Struct, frozen=True, tag="assistant", tag_field="role"):
    """`reasoning` is what the model thought before it asked for tools: within a turn some servers want it back."""

    content: str
    tool_calls: tuple[ToolCall, ...] = ()
    reasoning: str = ""


class ToolMessage(msgspec.Struct, frozen=True, tag="tool", tag_field="role"):
    """The result of the call `tool_call_id`."""

    content: str
    tool_call_id: str
    name: str = ""


Message = SystemMessage | UserMessage | AssistantMessage | ToolMessage


class ToolSpec(msgspec.Struct, frozen=True):
    """What the model is told of a tool. `parameters` is a JSON schema of type object."""

    name: str
    description: str
    parameters: Mapping[str, Any]


class ModelSettings(msgspec.Struct, frozen=True):
    """`None` leaves a knob to the provider. The time-outs bound waits, not the whole answer: that for the first byte
    counts from the request, that between chunks from the byte before."""

    temperature: float | None = None
    max_tokens: int | None = None
    top_p: float | None = None
    frequency_penalty: float | None = None
    presence_penalty: float | None = None
    response_format: str | None = None
    reasoning_effort: str | None = None
    first_byte_timeout_s: float = 120.0
    between_chunks_timeout_s: float = 60.0
    max_retries: int = 2


class TextDelta(msgspec.Struct, frozen=True):
    text: str


class ReasoningDelta(msgspec.Struct, frozen=True):
    """What the model thinks: no part of its answer."""

    text: str


class CallDelta(msgspec.Struct, frozen=True):
    """One whole tool call; adapters put fragments together. An id may be missing, or be another call's too."""

    call: ToolCall


class Finish(msgspec.Struct, frozen=True):
    """Always the last delta of a good answer.

    `reason` is `stop`, `tool_calls`, `length` (a limit of tokens was reached), `content_filter`, or the provider's own
    word where it means none of these. Tokens are 0 where the provider does not tell; `reasoning_tokens` are a part of
    `completion_tokens`. `skipped` counts the pieces of the answer that could not be read.
    """

    reason: str
    prompt_tokens: int = 0
    completion_tokens: int = 0
    reasoning_tokens: int = 0
    skipped: int = 0


Delta = TextDelta | ReasoningDelta | CallDelta | Finish


class Model(Protocol):
    """A chat model, ready to be called. Safe to share between executions. `settings` are those its node was given.

    `stream` raises `ModelFailed` (status, provider's message, never a key) and must not swallow cancellation:
    cancelling the iteration, or closing the generator, closes the provider's connection. Nodes do not call it but
    ask through `convoq.models.asking`, which deals with what all models may do wrong.
    """

    name: str
    settings: ModelSettings

    def stream(
        self, messages: Sequence[Message], tools: Sequence[ToolSpec], settings: ModelSettings
    ) -> AsyncGenerator[Delta, None]: ...
