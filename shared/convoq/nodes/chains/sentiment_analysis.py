"""Sentiment Analysis: each item leaves by the output of the sentiment that a model finds in its text."""

from __future__ import annotations

from typing import Any

from convoq.contract.connections import ConnectionType
from convoq.contract.context import RunContext
from convoq.contract.definition import Node
from convoq.contract.items import Item, Outputs
from convoq.contract.model import Message, SystemMessage, UserMessage
from convoq.contract.node import MainNode
from convoq.contract.parameters import Parameters
from convoq.errors import NodeFailed
from convoq.nodes.chains.question import ask_for_value, models_for, text_of
from convoq.nodes.parsers.autofixing import FIX_PROMPT, Fixing
from convoq.nodes.parsers.structured import StructuredParser

CATEGORIES = "Positive, Neutral, Negative"
PROMPT = (
    "Judge the sentiment of the user's text. It is one of these: {categories}. Answer in the form that is asked for, "
    "without an explanation."
)


class SentimentOptions(Parameters):
    categories: str = CATEGORIES
    system_prompt_template: str = PROMPT
    include_detailed_results: bool = False
    enable_auto_fixing: bool = True

    @property
    def names(self) -> list[str]:
        return [name.strip() for name in self.categories.split(",") if name.strip()]


class SentimentParameters(Parameters):
    input_text: Any = ""
    options: SentimentOptions = SentimentOptions()


class SentimentAnalysisNode(MainNode[SentimentParameters]):
    type = "@n8n/n8n-nodes-langchain.sentimentAnalysis"
    versions = (1, 1.1)
    parameters_class = SentimentParameters
    accepts = {ConnectionType.LANGUAGE_MODEL: True}  # noqa: RUF012

    def output_count(self, node: Node) -> int:
        options = node.parameters.get("options")
        named = options.get("categories") if isinstance(options, dict) else None
        return len(SentimentOptions(categories=named if isinstance(named, str) else CATEGORIES).names) or 1

    async def run(self, ctx: RunContext[SentimentParameters]) -> Outputs:
        outputs: Outputs = [[] for _ in range(self.output_count(ctx.node))]
        failed: list[Item] = []
        for index, item in enumerate(ctx.items):
            try:
                place, found = await _feel(ctx, index)
            except NodeFailed as error:
                if ctx.node.on_error == "stopWorkflow" or not ctx.last_try:
                    raise
                failed.append(Item({**item.json, "error": error.message}, item.binary, index))
                continue
            outputs[place].append(Item({**item.json, "sentimentAnalysis": found}, item.binary, index))
        if ctx.node.on_error == "continueErrorOutput":
            return [*outputs, failed]
        outputs[0] += failed
        return outputs


async def _feel(ctx: RunContext[SentimentParameters], index: int) -> tuple[int, dict[str, Any]]:
    parameters = await ctx.parameters(index)
    options = parameters.options
    names = options.names
    if not names:
        raise NodeFailed("option 'categories': names no sentiment")
    score = {"type": "number", "minimum": 0, "maximum": 1}
    properties: dict[str, Any] = {
        "sentiment": {"type": "string", "enum": names},
        "strength": score,
        "confidence": score,
    }
    parser = StructuredParser({"type": "object", "properties": properties, "required": list(properties)})
    system = options.system_prompt_template.replace("{categories}", ", ".join(names))
    messages: list[Message] = [
        SystemMessage(system),
        UserMessage(text_of(parameters.input_text, "parameter 'inputText'")),
    ]
    models = await models_for(ctx, index)
    fixing = Fixing(ctx, parser, models, FIX_PROMPT) if options.enable_auto_fixing else parser
    found = await ask_for_value(ctx, models, messages, fixing)
    shown = {"category": found["sentiment"]}
    if options.include_detailed_results:
        shown |= {"strength": found["strength"], "confidence": found["confidence"]}
    return names.index(found["sentiment"]), shown
