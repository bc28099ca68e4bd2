"""Structured Output Parser: an answer in the form of a JSON schema, or of an example."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Literal

from pydantic import AliasChoices

from convoq.contract.connections import MODEL, ConnectionType
from convoq.contract.context import Context
from convoq.contract.node import SubNode
from convoq.contract.parameters import Parameters, parameter
from convoq.contract.parser import OutputParser
from convoq.errors import NodeFailed
from convoq.nodes.parsers.autofixing import FIX_PROMPT, Fixing
from convoq.nodes.parsers.reading import Schema, closed, json_in
from convoq.nodes.tools.schema import schema_of_example

EXAMPLE = '{"state": "California", "cities": ["Los Angeles", "San Francisco", "San Diego"]}'
ALL_REQUIRED_SINCE = 1.3
"""Fields of an example are optional before it, required since."""


class StructuredParameters(Parameters):
    schema_type: Literal["fromJson", "manual"] = "fromJson"
    json_schema_example: Any = EXAMPLE
    input_schema: Any = parameter("", validation_alias=AliasChoices("inputSchema", "jsonSchema"))
    auto_fix: bool = False
    customize_retry_prompt: bool = False
    prompt: str = parameter(FIX_PROMPT, when={"customizeRetryPrompt": True})


class StructuredParserNode(SubNode[StructuredParameters]):
    """The value is wrapped in a field `output` for the model, which some models leave out."""

    type = "@n8n/n8n-nodes-langchain.outputParserStructured"
    versions = (1, 1.3)
    parameters_class = StructuredParameters
    supplies = ConnectionType.OUTPUT_PARSER
    accepts = {ConnectionType.LANGUAGE_MODEL: False}  # noqa: RUF012

    async def supply(self, ctx: Context[StructuredParameters], item_index: int) -> OutputParser:
        parameters, version = await ctx.parameters(item_index), ctx.node.type_version
        if parameters.schema_type == "manual" or version < 1.2:
            schema = closed(_object(parameters.input_schema, "inputSchema"), required=False)
            declared = _object(parameters.input_schema, "inputSchema").get("required")
            if isinstance(declared, list):
                schema["required"] = declared
        else:
            example = _json(parameters.json_schema_example, "jsonSchemaExample")
            schema = closed(schema_of_example(example), required=version >= ALL_REQUIRED_SINCE)
        parser = StructuredParser(schema)
        if not parameters.auto_fix:
            return parser
        models = await ctx.supplied(MODEL, item_index)
        if not models:
            raise NodeFailed("parameter 'autoFix' is on, but no chat model is connected")
        return Fixing(ctx, parser, models, parameters.prompt)


class StructuredParser:
    def __init__(self, schema: Mapping[str, Any]) -> None:
        self.schema: Mapping[str, Any] = {
            "type": "object",
            "properties": {"output": schema},
            "required": ["output"],
            "additionalProperties": False,
        }
        self._schema = Schema(schema)

    @property
    def instructions(self) -> str:
        return (
            "Answer with a JSON object that fits this JSON schema, in a Markdown code block and with nothing else:\n"
            f"```json\n{json.dumps(self.schema, ensure_ascii=False)}\n```"
        )

    async def parse(self, text: str) -> Any:
        value = json_in(text)
        for _ in range(2):  # some models wrap once too often
            if isinstance(value, dict) and set(value) == {"output"}:
                value = value["output"]
        self._schema.check(value)
        return value


def _json(given: Any, name: str) -> Any:
    if not isinstance(given, str):
        return given
    try:
        return json.loads(given or "{}", strict=False)
    except (ValueError, RecursionError) as error:
        raise NodeFailed(f"parameter {name!r} is not JSON: {error}") from None


def _object(given: Any, name: str) -> dict[str, Any]:
    found = _json(given, name)
    if not isinstance(found, dict):
        raise NodeFailed(f"parameter {name!r} should be a JSON object")
    return found
