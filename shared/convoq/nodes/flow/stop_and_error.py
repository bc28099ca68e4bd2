"""Stop and Error: ends the execution with an error of one's own."""

from __future__ import annotations

import json
from typing import Any, Literal

from convoq.contract.context import RunContext
from convoq.contract.items import Outputs
from convoq.contract.node import MainNode
from convoq.contract.parameters import Parameters, parameter
from convoq.errors import BadParameter, NodeFailed
from convoq.expressions import js
from convoq.expressions.field_types import json_text


class StopAndErrorParameters(Parameters):
    error_type: Literal["errorMessage", "errorObject"] = "errorMessage"
    error_message: str = parameter("An error occurred!", when={"error_type": "errorMessage"})
    error_object: dict[str, Any] | str = parameter("{}", when={"error_type": "errorObject"})


class StopAndErrorNode(MainNode[StopAndErrorParameters]):
    """Of an error object `message`, `description` or `error` is what is told, else all of it."""

    type = "n8n-nodes-base.stopAndError"
    versions = (1, 1)
    parameters_class = StopAndErrorParameters
    pure = True

    async def run(self, ctx: RunContext[StopAndErrorParameters]) -> Outputs:
        given = await ctx.parameters()
        if given.error_type == "errorMessage":
            raise NodeFailed(given.error_message)
        found = given.error_object
        if isinstance(found, str):
            try:
                found = json.loads(found, strict=False)
            except ValueError as error:
                raise BadParameter(f"errorObject: not JSON: {error}", parameter="errorObject") from None
        if not isinstance(found, dict):
            raise BadParameter("errorObject: should be a JSON object", parameter="errorObject")
        said = next((found[key] for key in ("message", "description", "error") if found.get(key) is not None), None)
        raise NodeFailed(f"Error: {json_text(found)}" if said is None else js.text(said), error=found)
