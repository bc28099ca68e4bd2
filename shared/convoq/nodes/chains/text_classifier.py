"""Text Classifier: each item leaves by the output of the category that a model finds for it."""

from __future__ import annotations

from typing import Any, Literal

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

PROMPT = (
    "Decide to which of these categories the user's text belongs: {categories}. Answer in the form that is asked for, "
    "without an explanation."
)
OTHER = "other"


class Category(Parameters):
    category: str = ""
    description: str = ""


class Categories(Parameters):
    categories: tuple[Category, ...] = ()


class ClassifierOptions(Parameters):
    multi_class: bool = False
    fallback: Literal["discard", "other"] = "discard"
    system_prompt_template: str = PROMPT
    enable_auto_fixing: bool = True


class ClassifierParameters(Parameters):
    input_text: Any = ""
    categories: Categories = Categories()
    options: ClassifierOptions = ClassifierOptions()


class TextClassifierNode(MainNode[ClassifierParameters]):
    type = "@n8n/n8n-nodes-langchain.textClassifier"
    versions = (1, 1.1)
    parameters_class = ClassifierParameters
    accepts = {ConnectionType.LANGUAGE_MODEL: True}  # noqa: RUF012

    def output_count(self, node: Node) -> int:
        raw = node.parameters.get("categories")
        listed = raw.get("categories") if isinstance(raw, dict) else None
        options = node.parameters.get("options")
        other = isinstance(options, dict) and options.get("fallback") == OTHER
        return (len(listed) if isinstance(listed, list) else 0) + other or 1

    async def run(self, ctx: RunContext[ClassifierParameters]) -> Outputs:
        outputs: Outputs = [[] for _ in range(self.output_count(ctx.node))]
        failed: list[Item] = []
        for index, item in enumerate(ctx.items):
            try:
                places = await _places(ctx, index)
            except NodeFailed as error:
                if ctx.node.on_error == "stopWorkflow" or not ctx.last_try:
                    raise
                if ctx.node.on_error == "continueErrorOutput":
                    failed.append(Item({**item.json, "error": error.message}, item.binary, index))
                else:
                    outputs[0].append(Item({"error": error.message}, paired_item=index))
                continue
            for place in places:
                outputs[place].append(Item(item.json, item.binary, index))
        return [*outputs, failed] if ctx.node.on_error == "continueErrorOutput" else outputs


async def _places(ctx: RunContext[ClassifierParameters], index: int) -> list[int]:
    """The outputs that the item leaves by."""
    parameters = await ctx.parameters(index)
    options, categories = parameters.options, parameters.categories.categories
    if not categories:
        raise NodeFailed("parameter 'categories': at least one category must be defined")
    names = [one.category for one in categories]
    if len(set(names)) != len(names) or not all(names):
        raise NodeFailed("parameter 'categories': each needs a name of its own")
    fallback = options.fallback == OTHER
    properties = {
        one.category: {
            "type": "boolean",
            "description": f"Whether the text is of the category {one.category!r}. {one.description}".strip(),
        }
        for one in categories
    }
    if fallback:
        properties[OTHER] = {"type": "boolean", "description": "Whether it is of none of the others"}
    parser = StructuredParser(
        {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}
    )
    many = "Several categories may be true." if options.multi_class else "At most one category is true."
    none = f"If none fits, {'only `other` is true' if fallback else 'all are false'}."
    system = "\n".join((options.system_prompt_template.replace("{categories}", ", ".join(names)), many, none))
    messages: list[Message] = [
        SystemMessage(system),
        UserMessage(text_of(parameters.input_text, "parameter 'inputText'")),
    ]
    models = await models_for(ctx, index)
    fixing = Fixing(ctx, parser, models, FIX_PROMPT) if options.enable_auto_fixing else parser
    found = await ask_for_value(ctx, models, messages, fixing)
    places = [place for place, name in enumerate(properties) if found.get(name) is True]
    return places if options.multi_class else places[:1]
