"""Auto-fixing Output Parser: an answer that does not fit goes back to a model, once, with what is wrong."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from convoq.contract.connections import MODEL, OUTPUT_PARSER, ConnectionType
from convoq.contract.context import Context, Supplied
from convoq.contract.model import Model, UserMessage
from convoq.contract.node import SubNode
from convoq.contract.parameters import Parameters
from convoq.contract.parser import OutputParser
from convoq.errors import NodeFailed, OutputNotParsed
from convoq.models.asking import Asking

FIX_PROMPT = """An answer was asked for in this form:
<form>
{instructions}
</form>

This answer was given:
<answer>
{completion}
</answer>

It cannot be used: {error}

Give the same answer again in the right form, and nothing else."""


class FixingOptions(Parameters):
    prompt: str = FIX_PROMPT


class FixingParameters(Parameters):
    options: FixingOptions = FixingOptions()


class AutofixingParserNode(SubNode[FixingParameters]):
    type = "@n8n/n8n-nodes-langchain.outputParserAutofixing"
    versions = (1, 1)
    parameters_class = FixingParameters
    supplies = ConnectionType.OUTPUT_PARSER
    accepts = {ConnectionType.LANGUAGE_MODEL: True, ConnectionType.OUTPUT_PARSER: True}  # noqa: RUF012

    async def supply(self, ctx: Context[FixingParameters], item_index: int) -> OutputParser:
        parsers = await ctx.supplied(OUTPUT_PARSER, item_index)
        models = await ctx.supplied(MODEL, item_index)
        if not parsers or not models:
            raise NodeFailed("needs a chat model and an output parser")
        # Its braces are for the model's answer and not for expressions.
        prompt = (await ctx.parameters(item_index)).options.prompt
        return Fixing(ctx, parsers[0].value, models, prompt)


class Fixing:
    """`parser`, with a second try by a model."""

    def __init__(self, ctx: Context[Any], parser: OutputParser, models: Sequence[Supplied[Model]], prompt: str) -> None:
        self._ctx = ctx
        self._parser = parser
        self._models = models
        self._prompt = prompt

    @property
    def instructions(self) -> str:
        return self._parser.instructions

    @property
    def schema(self) -> Mapping[str, Any] | None:
        return self._parser.schema

    async def parse(self, text: str) -> Any:
        try:
            return await self._parser.parse(text)
        except OutputNotParsed as error:
            prompt = self._prompt
            for name, value in (
                ("instructions", self._parser.instructions),
                ("completion", text),
                ("error", error.message),
            ):
                prompt = prompt.replace("{" + name + "}", value)
            reply = await Asking(self._ctx, self._models).ask([UserMessage(prompt)])
            return await self._parser.parse(reply.text)
