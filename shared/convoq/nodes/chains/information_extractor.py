"""Information Extractor: fields of a schema, found by a model in a text."""

from __future__ import annotations

import json
from typing import Any, Literal

from pydantic import AliasChoices

from convoq.contract.connections import ConnectionType
from convoq.contract.context import RunContext
from convoq.contract.items import Item, Outputs
from convoq.contract.model import Message, SystemMessage, UserMessage
from convoq.contract.node import MainNode
from convoq.contract.parameters import Parameters, parameter
from convoq.contract.per_item import per_item
from convoq.errors import NodeFailed
from convoq.nodes.chains.question import ask_for_value, models_for, text_of
from convoq.nodes.parsers.autofixing import FIX_PROMPT, Fixing
from convoq.nodes.parsers.reading import closed
from convoq.nodes.parsers.structured import StructuredParser
from convoq.nodes.tools.schema import schema_of_example

PROMPT = """Find the wanted attributes in the user's text.
Take only what the text says. Leave out an attribute whose value it does not tell."""
TYPES = {"string": {"type": "string"}, "number": {"type": "number"}, "boolean": {"type": "boolean"},
         "date": {"type": "string", "format": "date"}}  # fmt: skip


class Attribute(Parameters):
    name: str = ""
    type: Literal["string", "number", "boolean", "date"] = "string"
    description: str = ""
    required: bool = False


class Attributes(Parameters):
    attributes: tuple[Attribute, ...] = ()


class ExtractorOptions(Parameters):
    system_prompt_template: str = PROMPT


class ExtractorParameters(Parameters):
    text: Any = ""
    schema_type: Literal["fromAttributes", "fromJson", "manual"] = "fromAttributes"
    attributes: Attributes = Attributes()
    json_schema_example: Any = ""
    input_schema: Any = parameter("", validation_alias=AliasChoices("inputSchema", "jsonSchema"))
    options: ExtractorOptions = ExtractorOptions()

    def wanted(self, version: float) -> dict[str, Any]:
        if self.schema_type == "fromAttributes":
            named = [one for one in self.attributes.attributes if one.name]
            if not named:
                raise NodeFailed("parameter 'attributes': at least one attribute must be named")
            return {
                "type": "object",
                "properties": {one.name: {**TYPES[one.type], "description": one.description} for one in named},
                "required": [one.name for one in named if one.required],
            }
        manual = self.schema_type == "manual"
        given = self.input_schema if manual else self.json_schema_example
        try:
            found = json.loads(given) if isinstance(given, str) else given
        except ValueError as error:
            which = "inputSchema" if manual else "jsonSchemaExample"
            raise NodeFailed(f"parameter {which!r} is not JSON: {error}") from None
        schema = found if manual else closed(schema_of_example(found), required=version >= 1.2)
        if not isinstance(schema, dict):
            raise NodeFailed("the schema should be a JSON object")
        return schema


class InformationExtractorNode(MainNode[ExtractorParameters]):
    type = "@n8n/n8n-nodes-langchain.informationExtractor"
    versions = (1, 1.2)
    parameters_class = ExtractorParameters
    accepts = {ConnectionType.LANGUAGE_MODEL: True}  # noqa: RUF012

    async def run(self, ctx: RunContext[ExtractorParameters]) -> Outputs:
        return await per_item(ctx, lambda index: _extract(ctx, index))


async def _extract(ctx: RunContext[ExtractorParameters], index: int) -> Item:
    parameters = await ctx.parameters(index)
    models = await models_for(ctx, index)
    parser = Fixing(ctx, StructuredParser(parameters.wanted(ctx.node.type_version)), models, FIX_PROMPT)
    text = text_of(parameters.text, "parameter 'text'")
    messages: list[Message] = [SystemMessage(parameters.options.system_prompt_template), UserMessage(text)]
    return Item({"output": await ask_for_value(ctx, models, messages, parser)}, paired_item=index)
