"""One answer of a model as it comes in, whichever adapter brings it, and what is made of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, cast, get_args
from uuid import uuid4

import msgspec

from convoq.contract.model import CallDelta, Delta, Finish, ReasoningDelta, TextDelta, ToolCall
from convoq.contract.run_data import Tokens
from convoq.errors import EmptyAnswer, ModelFailed
from convoq.models.calls import MAX_CALLS
from convoq.models.think import ThinkFilter
from convoq.protocol import Cut

WITHHELD = "The provider's content filter withheld this answer."
"""What the user reads where the filter left no word of it."""

Spoken = TextDelta | ReasoningDelta


@dataclass(frozen=True, slots=True)
class Reply:
    """One whole reply of a model.

    `cut` tells why it is not all that the model would have said, None where it is. `withheld`: the text is not the
    model's but `WITHHELD`.
    """

    text: str
    calls: Sequence[ToolCall]
    reasoning: str
    finish: Finish
    cut: Cut | None = None
    withheld: bool = False

    def report(self) -> dict[str, Any]:
        """For the run data."""
        tokens = self.tokens
        usage = {
            "promptTokens": tokens.prompt,
            "completionTokens": tokens.completion,
            "totalTokens": tokens.prompt + tokens.completion,
        }
        if tokens.reasoning:
            usage["reasoningTokens"] = tokens.reasoning
        report: dict[str, Any] = {
            "text": self.text,
            "toolCalls": [{"id": call.id, "name": call.name, "arguments": call.arguments} for call in self.calls],
            "finishReason": self.finish.reason,
            "tokenUsage": usage,
        }
        if self.reasoning:
            report["reasoning"] = self.reasoning
        return report

    def notes(self) -> Iterator[str]:
        """What people should know of it."""
        if self.cut == "length":
            yield "the answer is cut off: the model reached its limit of tokens"
        elif self.cut:
            yield "the provider's content filter " + ("withheld the answer" if self.withheld else "cut the answer off")
        if self.finish.skipped:
            yield f"{self.finish.skipped} unreadable pieces of the answer were left out"

    @property
    def tokens(self) -> Tokens:
        """Where the provider tells of reasoning but not how many tokens it took, that is estimated: by its length."""
        finish = self.finish
        reasoning = finish.reasoning_tokens
        if self.reasoning and not reasoning:
            said = len(self.text) + sum(len(call.name) + len(call.arguments) for call in self.calls)
            reasoning = round(finish.completion_tokens * len(self.reasoning) / (len(self.reasoning) + said))
        return Tokens(finish.prompt_tokens, finish.completion_tokens, reasoning)

    def check(self, model: str) -> None:
        """Raises `EmptyAnswer` for one with neither text nor tool call, `ModelFailed` for one with too many calls."""
        if len(self.calls) > MAX_CALLS:
            raise ModelFailed(f"model {model!r} asked for more than {MAX_CALLS} tool calls at once")
        if not self.text and not self.calls:
            raise EmptyAnswer(f"model {model!r} {self._why_empty()}", finish_reason=self.finish.reason)

    def _why_empty(self) -> str:
        if self.finish.reason == "length":
            how = "used up its limit of tokens by reasoning" if self.reasoning else "reached its limit of tokens"
            return f"{how} before it said anything: raise 'Maximum Number of Tokens'"
        only = ", it only reasoned" if self.reasoning else ""
        return f"answered nothing: neither a text nor a tool call{only} (finish reason {self.finish.reason!r})"


class Hearing:
    """`take` gives what of a delta is to be shown, as text or as reasoning; `reply` is the whole, at the end.

    A call gets an id where it has none of its own. `texts` is what has been said so far. `spoke` tells that it was more
    than reasoning.
    """

    __slots__ = ("_calls", "_finish", "_ids", "_think", "_thoughts", "spoke", "texts")

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.spoke = False
        self._thoughts: list[str] = []
        self._calls: list[ToolCall] = []
        self._ids: set[str] = set()
        self._finish = Finish("stop")
        self._think: ThinkFilter | None = ThinkFilter()

    def take(self, delta: Delta) -> Iterator[Spoken]:
        if isinstance(delta, TextDelta):
            if self._think is None:
                self.texts.append(delta.text)
                yield delta
            else:
                yield from self._split(*self._think.feed(delta.text))
                if self._think.done:
                    self._think = None
        elif isinstance(delta, ReasoningDelta):
            self._thoughts.append(delta.text)
            yield delta
        elif isinstance(delta, CallDelta):
            self.spoke = True
            call = _unwrapped(delta.call)
            if not call.id or call.id in self._ids:
                call = msgspec.structs.replace(call, id=f"call_{uuid4().hex[:24]}")
            self._ids.add(call.id)
            self._calls.append(call)
        else:
            self._finish = delta
            if self._think is not None:
                yield from self._split(*self._think.close())
            if delta.reason == "content_filter" and not self.spoke:
                yield TextDelta(WITHHELD)

    def _split(self, reasoning: str, text: str) -> Iterator[Spoken]:
        if reasoning:
            self._thoughts.append(reasoning)
            yield ReasoningDelta(reasoning)
        if text:
            self.spoke = True
            self.texts.append(text)
            yield TextDelta(text)

    def reply(self) -> Reply:
        finish, text = self._finish, "".join(self.texts)
        cut = cast(Cut, finish.reason) if finish.reason in get_args(Cut) else None
        withheld = cut == "content_filter" and not self.spoke
        return Reply(WITHHELD if withheld else text, self._calls, "".join(self._thoughts), finish, cut, withheld)


def _unwrapped(call: ToolCall) -> ToolCall:
    """Arguments that are a JSON text within a JSON text, as some models write them, read once more."""
    if not call.arguments.lstrip().startswith('"'):
        return call
    try:
        inner = msgspec.json.decode(call.arguments, type=str)
    except (msgspec.DecodeError, UnicodeError):
        return call
    return msgspec.structs.replace(call, arguments=inner) if inner.lstrip().startswith("{") else call
