"""OpenAI's chat completions as JSON: the request, and what is read of the answer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any
from uuid import uuid4

import msgspec

from convoq.contract.model import (
    AssistantMessage,
    CallDelta,
    Delta,
    Finish,
    Message,
    ModelSettings,
    ToolCall,
    ToolMessage,
    ToolSpec,
)
from convoq.models.sse import EventParser, TooLarge

MAX_ANSWER_BYTES = 32 << 20
_encode = msgspec.json.Encoder().encode


def request(
    model: str, messages: Sequence[Message], tools: Sequence[ToolSpec], settings: ModelSettings, *, openai: bool
) -> bytes:
    """The body of a streamed request. `openai`: the host is OpenAI's own, which has renamed `max_tokens`."""
    body: dict[str, Any] = {
        "model": model,
        "messages": [_message(message) for message in messages],
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


def _message(message: Message) -> object:
    if isinstance(message, AssistantMessage):
        wire: dict[str, Any] = {"role": "assistant", "content": message.content}
        if message.tool_calls:
            wire["tool_calls"] = [
                {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
                for call in message.tool_calls
            ]
        return wire
    if isinstance(message, ToolMessage):
        return {"role": "tool", "tool_call_id": message.tool_call_id, "content": message.content}
    return message  # a system or user message is on the wire what it is here


class _Function(msgspec.Struct):
    name: str | None = None
    arguments: str | dict[str, Any] | None = None


class _Call(msgspec.Struct):
    index: int | None = None
    id: str | None = None
    function: _Function | None = None


class _Part(msgspec.Struct):
    text: str | None = None


class _Delta(msgspec.Struct):
    content: str | list[_Part] | None = None
    tool_calls: list[_Call] | None = None


class _Choice(msgspec.Struct):
    index: int | None = None
    delta: _Delta | None = None
    message: _Delta | None = None
    finish_reason: str | None = None


class _Usage(msgspec.Struct):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None


class _Reply(msgspec.Struct):
    """A chunk of a stream, or a whole answer of a server that does not stream: `message` stands where `delta` would."""

    choices: list[_Choice] | None = None
    usage: _Usage | None = None
    error: Any = None
    object: str | None = None


_decode = msgspec.json.Decoder(_Reply).decode


class BadAnswer(ValueError):
    """Not a chat completion at all; the message quotes how it begins."""


class ProviderError(Exception):
    """The server said within a good response that it failed, in these words."""


class EndedEarly(Exception):
    """The stream stopped before the model had said why it stopped."""


class Answer:
    """One answer as its bytes come in: server-sent events, or one JSON object of a server that does not stream.

    `feed` gives the texts in a chunk as they are, `close` what was left at the end of the body, `finish` the tool calls
    and the end. `done` tells that `[DONE]` was seen, `reason` why the model stopped, empty while it has not.
    """

    def __init__(self) -> None:
        self.done = False
        self.reason = ""
        self._started = False
        self._received = 0
        self._head = b""
        self._plain: list[bytes] | None = None
        self._events = EventParser()
        self._usage: _Usage | None = None
        self._calls: list[_Call] = []

    def feed(self, chunk: bytes) -> Iterator[str]:
        """Raises `BadAnswer`, `ProviderError`, `TooLarge`."""
        self._received += len(chunk)
        if self._received > MAX_ANSWER_BYTES:
            raise TooLarge(f"the answer is larger than {MAX_ANSWER_BYTES} bytes")
        if not self._head:
            self._head = chunk.lstrip()[:200]
            if self._head.startswith((b"{", b"[")):
                self._plain = []
        if self._plain is not None:
            self._plain.append(chunk)
            return
        for event in self._events.feed(chunk):
            if event.strip() == b"[DONE]":
                if not self._started:
                    raise BadAnswer(_excerpt(event))
                self.done = True
                return
            if text := self._take(event):
                yield text

    def close(self) -> Iterator[str]:
        """Raises `BadAnswer`, `ProviderError`, and `EndedEarly` for half an answer."""
        if self._plain is not None:
            if text := self._take(b"".join(self._plain)):
                yield text
            self.done = self._started
        else:
            try:
                yield from self.feed(b"\n\n")  # the last event may lack its blank line
            except BadAnswer:
                if not self._started:
                    raise  # else it is cut off
        if not self._started:
            raise BadAnswer(_excerpt(self._head)) if self._head else EndedEarly
        if not self.done and not self.reason:
            raise EndedEarly

    def finish(self) -> Iterator[Delta]:
        for call in self._calls:
            name, arguments = (call.function.name, call.function.arguments) if call.function else ("", "")
            assert not isinstance(arguments, dict)
            yield CallDelta(ToolCall(call.id or f"call_{uuid4().hex[:24]}", name or "", arguments or "{}"))
        usage = self._usage or _Usage()
        yield Finish(self.reason or "stop", usage.prompt_tokens or 0, usage.completion_tokens or 0)

    def _take(self, event: bytes) -> str:
        try:
            reply = _decode(event)
        except (msgspec.DecodeError, UnicodeDecodeError):
            raise BadAnswer(_excerpt(event)) from None
        if reply.error or reply.object == "error":
            raise ProviderError(problem_of(event) or "no reason given")
        if reply.usage is not None:
            self._usage = reply.usage
        text = ""
        for choice in reply.choices or ():
            self._started = True
            if choice.index:
                continue  # one answer was asked for; of a server that sends more the first is taken
            if choice.finish_reason:
                self.reason = choice.finish_reason
            if delta := choice.delta or choice.message:
                if content := delta.content:
                    text += content if isinstance(content, str) else "".join(part.text or "" for part in content)
                for part in delta.tool_calls or ():
                    self._take_call(part)
        return text

    def _take_call(self, part: _Call) -> None:
        """Add a fragment to its call. Servers differ: some leave `index` out, or give every call index 0."""
        function = part.function or _Function()
        if isinstance(function.arguments, dict):
            function.arguments = _encode(function.arguments).decode()
        if call := self._call_of(part):
            call.id = call.id or part.id
            known = call.function = call.function or _Function()
            known.name = known.name or function.name
            known.arguments = f"{known.arguments or ''}{function.arguments or ''}"
        else:
            self._calls.append(_Call(part.index, part.id, function))

    def _call_of(self, part: _Call) -> _Call | None:
        if part.index is not None:
            call = next((call for call in reversed(self._calls) if call.index == part.index), None)
        elif part.id:
            call = next((call for call in self._calls if call.id == part.id), None)
        elif part.function and part.function.name:
            call = None
        else:
            call = self._calls[-1] if self._calls else None
        return None if call and call.id and part.id and call.id != part.id else call


def problem_of(body: bytes) -> str:
    """The message in an error's body: OpenAI's, FastAPI's, a bare text. Empty if there is none."""
    text = body.decode(errors="replace")
    try:
        told = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return text
    for key in ("error", "message", "detail"):
        if isinstance(told, dict) and told.get(key):
            told = told[key]
    return told if isinstance(told, str) else text


def _excerpt(body: bytes) -> str:
    return body[:200].decode(errors="replace")
