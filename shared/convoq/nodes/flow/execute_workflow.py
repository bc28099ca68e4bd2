"""Execute Workflow: hands items to another workflow, and goes on with what that makes of them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Literal, cast, get_args

from pydantic import Field

from convoq.contract.context import RunContext
from convoq.contract.definition import Node
from convoq.contract.items import Item, PairedItem
from convoq.contract.node import MainNode
from convoq.contract.parameters import Parameters, parameter
from convoq.contract.per_item import per_item
from convoq.errors import BadParameter, NodeFailed
from convoq.expressions.field_types import FieldType, convert


class InputField(Parameters):
    """A field of the called workflow's trigger, as it was when the call was drawn."""

    id: str = ""
    type: str = "any"
    required: bool = False
    removed: bool = False


class WorkflowInputs(Parameters):
    """`value` are the fields that the call sets, over those that the items have."""

    value: dict[str, Any] = Field(default_factory=dict)
    fields: tuple[InputField, ...] = parameter((), alias="schema")
    attempt_to_convert_types: bool = False
    convert_fields_to_string: bool = False

    def applied(self, item: Item, index: int) -> Item:
        """Raises `BadParameter` for a value that is not of its field's type."""
        found = {**item.json, **self.value}
        for field in self.fields:
            if field.removed:
                found.pop(field.id, None)
            elif field.id in self.value:
                found[field.id] = self._typed(field, index)
        return Item(found, item.binary, index)

    def _typed(self, field: InputField, index: int) -> Any:
        value = self.value[field.id]
        if field.type not in get_args(FieldType) or (field.type == "string" and not self.convert_fields_to_string):
            return value
        try:
            return convert(value, cast(FieldType, field.type), strict=not self.attempt_to_convert_types)
        except ValueError as error:
            message = f"item {index}: input {field.id!r} should be of type {field.type}, but is {error}"
            raise BadParameter(message, parameter=f"workflowInputs.value.{field.id}", item=index) from None


class Options(Parameters):
    wait_for_sub_workflow: bool = True


class ExecuteWorkflowParameters(Parameters):
    source: Literal["database", "parameter", "localFile", "url"] = "database"
    workflow_id: str = parameter("", when={"source": "database"})
    workflow_json: dict[str, Any] | str = parameter("", when={"source": "parameter"})
    workflow_inputs: WorkflowInputs = parameter(WorkflowInputs(), when={"source": "database"}, versions=(1.2, 1000))
    mode: Literal["once", "each"] = "once"
    options: Options = Options()

    def workflow(self) -> str | Mapping[str, Any]:
        """Its id, or its definition."""
        if self.source == "database":
            if not self.workflow_id:
                raise BadParameter("parameter 'workflowId' is empty: which workflow?", parameter="workflowId")
            return self.workflow_id
        if self.source != "parameter":
            raise BadParameter(f"a workflow from {self.source!r} cannot be called: import it", parameter="source")
        found = self.workflow_json
        if isinstance(found, str):
            try:
                found = json.loads(found)
            except (ValueError, RecursionError) as error:
                raise BadParameter(f"workflowJson: not JSON: {error}", parameter="workflowJson") from None
        if not isinstance(found, dict):
            raise BadParameter("workflowJson: should be a JSON object", parameter="workflowJson")
        return found


class ExecuteWorkflowNode(MainNode[ExecuteWorkflowParameters]):
    """A call that is not waited for is made all the same before the items go on; its failure is only noted."""

    type = "n8n-nodes-base.executeWorkflow"
    versions = (1, 1.3)
    parameters_class = ExecuteWorkflowParameters

    def warn(self, node: Node) -> str | None:
        if node.parameters.get("source") in ("localFile", "url"):
            return f"a workflow from {node.parameters['source']!r} cannot be called: import it and choose it"
        return None

    async def run(self, ctx: RunContext[ExecuteWorkflowParameters]) -> list[list[Item]]:
        if (await ctx.parameters()).mode == "each":
            return await per_item(ctx, lambda index: self._each(ctx, index))
        given = [(await ctx.parameters(index)).workflow_inputs.applied(item, index) for index, item in _numbered(ctx)]
        found = await _called(ctx, given, 0)
        if len(found) == len(given):
            return [[Item(item.json, item.binary, index) for index, item in enumerate(found)]]
        every = [PairedItem(index) for index in range(len(given))]
        return [[Item(item.json, item.binary, every) for item in found]]

    async def _each(self, ctx: RunContext[ExecuteWorkflowParameters], index: int) -> list[Item]:
        given = (await ctx.parameters(index)).workflow_inputs.applied(ctx.items[index], index)
        return [Item(item.json, item.binary, index) for item in await _called(ctx, [given], index)]


def _numbered(ctx: RunContext[Any]) -> Sequence[tuple[int, Item]]:
    return list(enumerate(ctx.items))


async def _called(ctx: RunContext[ExecuteWorkflowParameters], items: Sequence[Item], index: int) -> Sequence[Item]:
    given = await ctx.parameters(index)
    workflow = given.workflow()
    if given.options.wait_for_sub_workflow:
        return await ctx.call_workflow(workflow, items)
    try:
        await ctx.call_workflow(workflow, items)
    except NodeFailed as error:
        ctx.note(f"the workflow that was called without waiting for it failed: {error.message}")
    return items
