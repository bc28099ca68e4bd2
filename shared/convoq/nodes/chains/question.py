"""What the chains have in common: the prompt of an item, and one question to the model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from convoq.contract.connections import MODEL, OUTPUT_PARSER
from convoq.contract.context import RunContext, Supplied
from convoq.contract.model import Message, Model, UserMessage
from convoq.contract.parser import OutputParser
from convoq.errors import NodeFailed
from convoq.models.asking import Asking


async def models_for(ctx: RunContext[Any], index: int, *, fallback: bool = False) -> Sequence[Supplied[Model]]:
    """Raises `NodeFailed`."""
    models = await ctx.supplied(MODEL, index)
    if not models:
        raise NodeFailed("no chat model is connected")
    if fallback and len(models) < 2:
        raise NodeFailed("parameter 'needsFallback' is on, but no second chat model is connected")
    return models[: 2 if fallback else 1]


async def parser_for(ctx: RunContext[Any], index: int) -> OutputParser | None:
    parsers = await ctx.supplied(OUTPUT_PARSER, index)
    return parsers[0].value if parsers else None


async def ask(ctx: RunContext[Any], models: Sequence[Supplied[Model]], messages: Sequence[Message]) -> str:
    """The answer, whole. Raises `ModelFailed` where it was withheld."""
    return (await Asking(ctx, models).ask(messages)).text


async def ask_for_value(
    ctx: RunContext[Any], models: Sequence[Supplied[Model]], messages: Sequence[Message], parser: OutputParser
) -> Any:
    """The value that the parser makes of the answer; its instructions stand in the last message.

    Raises `OutputNotParsed`.
    """
    *before, last = messages
    told = UserMessage(f"{last.content}\n{parser.instructions}")
    return await parser.parse(await ask(ctx, models, [*before, told]))


def text_of(value: object, what: str) -> str:
    """A prompt as text. Raises `NodeFailed` where there is none."""
    if isinstance(value, dict | list):
        raise NodeFailed(f"{what} must be a text, not {'an object' if isinstance(value, dict) else 'an array'}")
    text = "" if value is None else "true" if value is True else "false" if value is False else str(value)
    if not text.strip():
        raise NodeFailed(f"{what} is empty")
    return text
