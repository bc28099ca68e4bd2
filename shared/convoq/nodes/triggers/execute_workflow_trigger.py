"""Execute Workflow Trigger: a call by another workflow, or by a model's tool, starts here."""

from __future__ import annotations

import json
from typing import Any, Literal

from pydantic import ValidationInfo, field_validator

from convoq.contract.context import RunContext
from convoq.contract.items import Item, Outputs
from convoq.contract.node import MainNode
from convoq.contract.parameters import Parameters, parameter, version_of


class Field(Parameters):
    name: str = ""
    type: str = "string"


class Fields(Parameters):
    values: tuple[Field, ...] = ()


class ExecuteWorkflowTriggerParameters(Parameters):
    input_source: Literal["workflowInputs", "jsonExample", "passthrough"] = parameter(
        "workflowInputs", versions=(1.1, 1000)
    )
    workflow_inputs: Fields = parameter(Fields(), when={"input_source": "workflowInputs"})
    json_example: str = parameter("{}", when={"input_source": "jsonExample"})

    @field_validator("json_example", mode="after")
    @classmethod
    def _is_an_object(cls, value: str, info: ValidationInfo) -> str:
        counts = info.data.get("input_source") == "jsonExample" and version_of(info) >= 1.1
        if counts and not isinstance(_read(value), dict):
            raise ValueError("should be a JSON object")
        return value

    def names(self, version: float) -> list[str] | None:
        """The fields that items have here; None where all that was handed over counts."""
        if version < 1.1 or self.input_source == "passthrough":
            return None
        if self.input_source == "jsonExample":
            return list(_read(self.json_example))
        return [field.name for field in self.workflow_inputs.values if field.name]


def _read(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise ValueError("not JSON") from None


class ExecuteWorkflowTriggerNode(MainNode[ExecuteWorkflowTriggerParameters]):
    """Of declared inputs those that were not given are null, and others do not come in."""

    type = "n8n-nodes-base.executeWorkflowTrigger"
    versions = (1, 1.1)
    parameters_class = ExecuteWorkflowTriggerParameters
    is_trigger = True
    called_by_workflows = True
    pure = True

    async def run(self, ctx: RunContext[ExecuteWorkflowTriggerParameters]) -> Outputs:
        names = (await ctx.parameters()).names(ctx.node.type_version)
        if names is None:
            return [list(ctx.items)]
        found = [{name: item.json.get(name) for name in names} for item in ctx.items]
        return [[Item(json, paired_item=index) for index, json in enumerate(found)]]
