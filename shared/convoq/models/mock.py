"""A model that needs no network and always answers the same: for trying convoq out, and for tests."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Sequence

import msgspec

from convoq.contract.model import (
    AssistantMessage,
    CallDelta,
    Delta,
    Finish,
    Message,
    ModelSettings,
    TextDelta,
    ToolCall,
    ToolMessage,
    ToolSpec,
    UserMessage,
)

NUMBER = r"\d+(?:\.\d+)?"
ARITHMETIC = re.compile(rf"{NUMBER}(?:\s*[-+*/x×÷]\s*{NUMBER})+")
ASKS_NAME = re.compile(r"\bwhat(?:'s|’s| is) my name\b", re.IGNORECASE)
TELLS_NAME = re.compile(r"\bmy name is\s+([^\W\d_][\w'’-]{0,39})", re.IGNORECASE)
HELP = (
    "I am the mock model: I need no key and know three things. Tell me that your name is Ada and ask for it later, "
    "or connect a Calculator and ask me what 19 * 23 is."
)


class MockModel:
    """Knows arithmetic (by a tool whose name contains "calc"), the user's name, and one fixed answer.

    Streams word by word, `delay_per_token_ms` before each. Counts words as tokens.
    """

    name = "mock"

    def __init__(self, delay_per_token_ms: float = 0, settings: ModelSettings = ModelSettings()) -> None:  # noqa: B008
        self._delay_s = delay_per_token_ms / 1000
        self.settings = settings

    async def stream(
        self, messages: Sequence[Message], tools: Sequence[ToolSpec], settings: ModelSettings
    ) -> AsyncGenerator[Delta, None]:
        prompt_tokens = sum(len(message.content.split()) for message in messages)
        reply = answer(messages, tools)
        if isinstance(reply, ToolCall):
            if self._delay_s:
                await asyncio.sleep(self._delay_s)
            yield CallDelta(reply)
            yield Finish("tool_calls", prompt_tokens, 1)
            return
        words = re.findall(r"\S+\s*", reply)
        for word in words:
            if self._delay_s:
                await asyncio.sleep(self._delay_s)
            yield TextDelta(word)
        yield Finish("stop", prompt_tokens, len(words))


def answer(messages: Sequence[Message], tools: Sequence[ToolSpec]) -> str | ToolCall:
    """What the mock model says to these messages."""
    last = max((i for i, message in enumerate(messages) if isinstance(message, UserMessage)), default=-1)
    question = messages[last].content if last >= 0 else ""
    results = [message for message in messages[last + 1 :] if isinstance(message, ToolMessage)]
    if results:
        names = {call.id: call.name for m in messages if isinstance(m, AssistantMessage) for call in m.tool_calls}
        told = (f"{r.name or names.get(r.tool_call_id, 'a tool')} returned {r.content}" for r in results)
        return f"Based on the tools: {'; '.join(told)}."
    calculator = next((tool.name for tool in tools if "calc" in tool.name.lower()), None)
    if calculator and (found := ARITHMETIC.search(question)):
        expression = re.sub(r"\s*([-+*/x×÷])\s*", lambda m: f" {SIGNS.get(m[1], m[1])} ", found[0])
        arguments = msgspec.json.encode({"input": expression}).decode()
        return ToolCall(f"call_{len(messages)}", calculator, arguments)
    if ASKS_NAME.search(question):
        for message in reversed(messages[:last]):
            if isinstance(message, UserMessage) and (told_name := TELLS_NAME.search(message.content)):
                return f"Your name is {told_name[1]}."
        return "I do not know your name yet."
    if told_name := TELLS_NAME.search(question):
        return f"Nice to meet you, {told_name[1]}."
    return HELP


SIGNS = {"x": "*", "×": "*", "÷": "/"}
