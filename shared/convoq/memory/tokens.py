"""How many tokens a text is to a model.

The tokenizers of hosted models are not at hand (their vocabularies would have to be fetched when a worker starts), so
all but the mock model's, which counts words, are estimated: one token for four bytes of UTF-8, and four for what
encloses a message. English comes out a little high, Cyrillic and Chinese nearly right; the history is then rather too
short than too long for the model.
"""

from __future__ import annotations

from typing import Literal

from convoq.contract.memory import Turn
from convoq.contract.model import AssistantMessage, Message

Counted = Literal["exact", "estimate"]

BYTES_PER_TOKEN = 4
TOKENS_PER_MESSAGE = 4


def count(text: str, model: str) -> tuple[int, Counted]:
    if model == "mock":
        return len(text.split()), "exact"
    return -(-len(text.encode()) // BYTES_PER_TOKEN), "estimate"


def count_turn(turn: Turn, model: str) -> int:
    return sum(_count_message(message, model) for message in turn.messages())


def how(model: str) -> str:
    """For people: the unit, and how it was counted."""
    _, counted = count("", model)
    return "tokens (exact)" if counted == "exact" else f"tokens (an estimate: {BYTES_PER_TOKEN} bytes a token)"


def _count_message(message: Message, model: str) -> int:
    tokens, counted = count(message.content, model)
    if isinstance(message, AssistantMessage):
        tokens += sum(count(f"{call.name} {call.arguments}", model)[0] for call in message.tool_calls)
    return tokens + (TOKENS_PER_MESSAGE if counted == "estimate" else 0)
