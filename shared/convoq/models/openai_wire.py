"""What is read of an answer in OpenAI's chat completions: a stream, or one object."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Sequence
from typing import Any

import msgspec
import structlog

from convoq.contract.model import CallDelta, Delta, Finish, ReasoningDelta, TextDelta
from convoq.models.calls import Calls
from convoq.models.finish_reason import FAILED, finish_reason
from convoq.models.sse import EventParser, TooLarge
from convoq.models.words import problem_of

MAX_ANSWER_BYTES = 32 << 20
MAX_UNREADABLE = 10
"""Events that cannot be read: a few are a proxy's slips, so many are no answer."""
BOM = b"\xef\xbb\xbf"
OLD_FORM = "function_call"
"""How tools were called before there were several; it is the index of such a call here."""

log = structlog.get_logger()


class _Function(msgspec.Struct):
    name: str | None = None
    arguments: Any = None


class _Call(msgspec.Struct):
    index: int | str | None = None
    id: str | None = None
    function: _Function | None = None
    extra_content: Any = None


class _Part(msgspec.Struct):
    text: str | None = None
    refusal: str | None = None
    thinking: str | list[_Part] | None = None


class _Delta(msgspec.Struct):
    content: str | list[_Part] | None = None
    tool_calls: list[_Call] | None = None
    refusal: str | None = None
    reasoning_content: str | None = None
    reasoning: Any = None
    function_call: _Function | None = None


class _Choice(msgspec.Struct):
    index: int | None = None
    delta: _Delta | None = None
    message: _Delta | None = None
    text: str | None = None
    finish_reason: str | None = None


class _Reply(msgspec.Struct):
    """A chunk of a stream, or a whole answer of a server that does not stream: `message` stands where `delta` would,
    or `text`, as before there were messages."""

    choices: list[_Choice] | None = None
    usage: Any = None
    error: Any = None
    object: str | None = None
    message: Any = None
    detail: Any = None


_decode = msgspec.json.Decoder(_Reply).decode


class BadAnswer(ValueError):
    """Not a chat completion at all; the message quotes how it begins."""


class ProviderError(Exception):
    """The server said within a good response that it failed, in these words."""


class EndedEarly(Exception):
    """The stream stopped before the model had said why it stopped."""


class Answer:
    """One answer as its bytes come in: server-sent events, or one JSON object of a server that does not stream.

    `feed` gives what a chunk says as it is, `close` what was left at the end of the body, `finish` the tool calls and
    the end. `done` tells that `[DONE]` was seen, `reason` why the model stopped, empty while it has not,
    `reasoning_field` where the server tells what the model thinks, `extras` what it added to calls, by their ids.
    `tools` are the names of the tools that were offered, `place` names the model in the log.
    """

    def __init__(self, tools: Collection[str] = (), place: str = "model") -> None:
        self.done = False
        self.reason = ""
        self.reasoning_field = ""
        self.extras: dict[str, Any] = {}
        self._place = place
        self._ended = False
        self._started = False
        self._spoke = False
        self._received = 0
        self._head = b""
        self._plain: list[bytes] | None = None
        self._events = EventParser()
        self._usage: Any = None
        self._calls = Calls(tools)
        self._unreadable: list[bytes] = []

    def feed(self, chunk: bytes) -> Iterator[Delta]:
        """Raises `BadAnswer`, `ProviderError`, `TooLarge`."""
        self._received += len(chunk)
        if self._received > MAX_ANSWER_BYTES:
            raise TooLarge(f"the answer is larger than {MAX_ANSWER_BYTES} bytes")
        if not self._head:
            chunk = chunk.removeprefix(BOM)
            self._head = chunk.lstrip()[:200]
            if self._head.startswith((b"{", b"[")):
                self._plain = []
        if self._plain is not None:
            self._plain.append(chunk)
            return
        for event in self._events.feed(chunk):
            if event.strip() == b"[DONE]":
                if not self._started:
                    raise BadAnswer(_excerpt(self._unreadable[0] if self._unreadable else event))
                self.done = True
                return
            if (reply := self._read(event)) is not None:
                yield from self._take(reply, event)

    def close(self) -> Iterator[Delta]:
        """Raises `BadAnswer`, `ProviderError`, and `EndedEarly` for half an answer."""
        if self._plain is not None:
            body = b"".join(self._plain)
            whole = _read(body) is not None
            for event in (body,) if whole else body.splitlines():  # or an object a line
                if event.strip() and (reply := self._read(event)) is not None:
                    yield from self._take(reply, event)
            self.done = self._started
        elif self._head:
            self._ended = True
            yield from self.feed(b"\n\n")  # the last event may lack its blank line
        if not self._started and self._head:
            raise BadAnswer(_excerpt(self._unreadable[0] if self._unreadable else self._head))
        if not self.done and not self.reason:
            raise EndedEarly

    def finish(self) -> Iterator[Delta]:
        for call, extra in self._calls.finish():
            if extra is not None:
                self.extras[call.id] = extra
            yield CallDelta(call)
        usage = self._usage
        yield Finish(
            self.reason or "stop",
            _count(usage, "prompt_tokens"),
            _count(usage, "completion_tokens"),
            _count(usage, "completion_tokens_details", "reasoning_tokens"),
            len(self._unreadable),
        )

    def _read(self, event: bytes) -> _Reply | None:
        """None for an event that is not to be read: it is left out, and counts."""
        try:
            return _decode(event)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            if (reply := _read(event)) is not None or self._ended:
                return reply  # what the end cut off is not counted: it is the end that tells
            self._unreadable.append(event)
            log.warning("unreadable event of a model left out", model=self._place, size=len(event), reason=str(error))
        if len(self._unreadable) == MAX_UNREADABLE:
            raise BadAnswer(_excerpt(self._unreadable[0]))
        return None

    def _take(self, reply: _Reply, event: bytes) -> Sequence[Delta]:
        told = reply.choices is None and (reply.detail or isinstance(reply.message, str))
        if reply.error or reply.object == "error" or told:
            raise ProviderError(problem_of(event) or "no reason given")
        if reply.usage is not None:
            self._usage = reply.usage
        said: list[Delta] = []
        for choice in reply.choices or ():
            self._started = True
            if choice.index:
                continue  # one answer was asked for; of a server that sends more the first is taken
            if choice.finish_reason:
                if choice.finish_reason in FAILED:
                    raise ProviderError(f"it stopped with the finish reason {choice.finish_reason!r}")
                self.reason = finish_reason(choice.finish_reason)
            delta = choice.delta
            if choice.message is not None and not self._spoke:  # else it is what was said, once more
                delta = choice.message
            if delta is not None:
                self._say(delta, said)
            elif choice.text:
                said.append(TextDelta(choice.text))
        return said

    def _say(self, delta: _Delta, said: list[Delta]) -> None:
        if (thought := delta.reasoning_content or delta.reasoning) and isinstance(thought, str):
            self.reasoning_field = "reasoning_content" if delta.reasoning_content else "reasoning"
            said.append(ReasoningDelta(thought))
        if content := delta.content:
            self._spoke = True
            if isinstance(content, str):
                said.append(TextDelta(content))
            else:
                said.extend(_parts(content))
        if delta.refusal:
            self._spoke = True
            said.append(TextDelta(delta.refusal))
        if delta.tool_calls:
            self._spoke = True
            for call in delta.tool_calls:
                function = call.function or _Function()
                self._calls.add(call.index, call.id, function.name, function.arguments, call.extra_content)
        if (old := delta.function_call) is not None:
            self._spoke = True
            self._calls.add(OLD_FORM, None, old.name, old.arguments)


def _parts(parts: list[_Part]) -> Iterator[Delta]:
    """Content in parts: texts, and Mistral's thinking, which is text or parts again."""
    for part in parts:
        thinking = part.thinking
        if thought := "".join(inner.text or "" for inner in thinking) if isinstance(thinking, list) else thinking:
            yield ReasoningDelta(thought)
        if text := part.text or part.refusal:
            yield TextDelta(text)


def _read(event: bytes) -> _Reply | None:
    """A second, more patient reading: of broken characters, of control characters within texts."""
    try:
        value = json.loads(event.decode(errors="replace"), strict=False)
        return _decode(json.dumps(value, ensure_ascii=False).encode(errors="replace"))
    except (ValueError, RecursionError):  # msgspec's and Unicode's errors are ValueErrors
        return None


def _count(usage: Any, *path: str) -> int:
    for name in path:
        usage = usage.get(name) if isinstance(usage, dict) else None
    return int(usage) if isinstance(usage, int | float) and 0 <= usage < 1 << 53 else 0


def is_filtered(body: bytes) -> bool:
    """Whether a refused request was refused by a content filter: so Azure says it, with status 400."""
    try:
        error = msgspec.json.decode(body)["error"]
        return error["code"] in ("content_filter", "content_policy_violation")
    except (ValueError, TypeError, KeyError):
        return False


def _excerpt(body: bytes) -> str:
    return body[:200].decode(errors="replace")
