"""Call n8n Workflow Tool: another workflow, or this one, as a tool."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Literal

from convoq.contract.connections import ConnectionType
from convoq.contract.context import Context
from convoq.contract.from_ai import placeholders_in, schema_of
from convoq.contract.items import Item
from convoq.contract.model import ToolSpec
from convoq.contract.node import SubNode
from convoq.contract.parameters import Parameters, parameter
from convoq.contract.tool import Tool, tool_name
from convoq.errors import NodeFailed, ToolFailed
from convoq.nodes.tools.schema import schema_of_example

PASSES_ALL_SINCE = 1.3
"""Before it the called workflow's answer is one field of its item (`responsePropertyName`)."""


class WorkflowInputs(Parameters):
    mapping_mode: str = "defineBelow"
    value: dict[str, Any] | None = None


class Fields(Parameters):
    values: tuple[dict[str, Any], ...] = ()


class WorkflowToolParameters(Parameters):
    """Since 2 what is handed over is `workflowInputs`, with `$fromAI` in it; before, the model's text as `query` and
    `fields`, or, with an input schema, what the schema asks for."""

    name: str = ""
    description: str = ""
    source: Literal["database", "parameter"] = "database"
    workflow_id: str = parameter("", when={"source": "database"})
    workflow_json: Any = parameter("", when={"source": "parameter"})
    response_property_name: str = parameter("response", versions=(1, 1.2))
    fields: Fields = Fields()
    workflow_inputs: WorkflowInputs = WorkflowInputs()
    specify_input_schema: bool = False
    schema_type: Literal["fromJson", "manual"] = "fromJson"
    json_schema_example: str = ""
    input_schema: str = ""


class WorkflowToolNode(SubNode[WorkflowToolParameters]):
    type = "@n8n/n8n-nodes-langchain.toolWorkflow"
    versions = (1, 2.2)
    parameters_class = WorkflowToolParameters
    supplies = ConnectionType.TOOL

    async def supply(self, ctx: Context[WorkflowToolParameters], item_index: int) -> Tool:
        # What `$fromAI` gives is known only in a call: these are read from the parameters as they stand.
        given = {key: value for key, value in ctx.node.parameters.items() if key != "workflowInputs"}
        parameters = WorkflowToolParameters.model_validate(
            await ctx.evaluate(given, item_index), context={"version": ctx.node.type_version}
        )
        version = ctx.node.type_version
        name = parameters.name if version < 2.2 and parameters.name else ctx.node.name
        if version >= 2:
            schema = schema_of(placeholders_in(ctx.node.parameters.get("workflowInputs")))
            if not schema["properties"]:
                schema = TEXT
        elif parameters.specify_input_schema:
            schema = _schema(parameters)
        else:
            schema = TEXT
        spec = ToolSpec(tool_name(name), parameters.description or f"Call the workflow {name}", schema)
        return _Call(spec, parameters, ctx, item_index)


TEXT: dict[str, Any] = {"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]}


def _schema(parameters: WorkflowToolParameters) -> dict[str, Any]:
    which = "inputSchema" if parameters.schema_type == "manual" else "jsonSchemaExample"
    text = parameters.input_schema if parameters.schema_type == "manual" else parameters.json_schema_example
    try:
        found = json.loads(text or "{}")
    except ValueError as error:
        raise NodeFailed(f"parameter {which!r} is not JSON: {error}") from None
    return found if parameters.schema_type == "manual" else schema_of_example(found)


class _Call:
    pure = False

    def __init__(self, spec: ToolSpec, parameters: WorkflowToolParameters, ctx: Context[Any], item_index: int) -> None:
        self.spec = spec
        self._parameters = parameters
        self._ctx = ctx
        self._item_index = item_index

    async def call(self, arguments: Mapping[str, Any]) -> str:
        parameters, ctx = self._parameters, self._ctx
        item = await self._item(arguments)
        items = await ctx.call_workflow(self._workflow(), [Item(item, ctx.items[self._item_index].binary)])
        found = [one.json for one in items]
        if ctx.node.type_version < PASSES_ALL_SINCE:
            key = parameters.response_property_name
            value = found[0].get(key) if found else None
            if value is None:
                raise ToolFailed(f"the called workflow gave no field {key!r} (parameter 'responsePropertyName')")
            return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
        return json.dumps(found, ensure_ascii=False, default=str)

    async def _item(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        parameters, ctx = self._parameters, self._ctx
        if ctx.node.type_version >= 2:
            inputs = ctx.node.parameters.get("workflowInputs")
            raw = inputs.get("value") if isinstance(inputs, Mapping) else None
            if not raw:
                return dict(arguments)
            value = await ctx.evaluate_with(raw, arguments, self._item_index)
            return value if isinstance(value, dict) else {}
        query = arguments.get("query", arguments.get("input"))
        item: dict[str, Any] = dict(arguments) if parameters.specify_input_schema else {"query": query}
        return item | {str(field["name"]): _value_of(field) for field in parameters.fields.values if field.get("name")}

    def _workflow(self) -> str | Mapping[str, Any]:
        parameters = self._parameters
        if parameters.source == "database":
            if not parameters.workflow_id:
                raise NodeFailed("parameter 'workflowId' is empty: no workflow is chosen")
            return parameters.workflow_id
        definition = parameters.workflow_json
        if isinstance(definition, str):
            try:
                definition = json.loads(definition)
            except ValueError as error:
                raise NodeFailed(f"parameter 'workflowJson' is not JSON: {error}") from None
        if not isinstance(definition, Mapping):
            raise NodeFailed("parameter 'workflowJson' should be a JSON object")
        return definition


def _value_of(field: Mapping[str, Any]) -> Any:
    """n8n's typed fields: the value stands under a key that is called like the type."""
    kind = str(field.get("type") or "stringValue")
    return field.get(kind, field.get("stringValue"))
