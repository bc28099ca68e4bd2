"""What a credential holds is read by nobody: not in run data, not in an error."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, cast

import pytest

from convoq.contract.context import RunContext
from convoq.contract.items import Item, Outputs
from convoq.contract.node import MainNode
from convoq.contract.services import OpenMemory, Services
from convoq.engine.kept import keeps_run_data
from convoq.engine.reading import parse_workflow
from convoq.engine.run import WorkflowRun
from convoq.errors import NodeFailed
from convoq.nodes.registry import by_type
from convoq.settings import RunData, Settings
from tests.engine.support import INFO, AnyParameters, Start, no_network, node, workflow_json

KEY = 'sk-"quoted"-ünïcode-1234567890'


class Leaky(MainNode[AnyParameters]):
    """Tells its credential in its output, or in its error."""

    type, versions, parameters_class, credentials = "leaky", (1, 1), AnyParameters, ("someApi",)

    async def run(self, ctx: RunContext[Any]) -> Outputs:
        fields = await ctx.needed_credential("someApi")
        if (await ctx.parameters()).raises:
            raise NodeFailed(f"refused: {fields['apiKey']}")
        return [[Item({"said": f"<{fields['apiKey']}>", "host": fields["host"]})]]


async def credential(kind: str, reference: Mapping[str, Any]) -> Mapping[str, Any]:
    return {"apiKey": KEY, "host": "https://api.example.com", "nested": {"password": "hunter2-hunter2"}}


@pytest.mark.parametrize("raises", ["", "yes"])
def test_run_data_and_errors_are_masked(raises: str) -> None:
    async def main() -> None:
        data = workflow_json([node("Start", "start"), node("L", "leaky", parameters={"raises": raises})], "Start > L")
        workflow = parse_workflow(data, source="t", registry=by_type([Start, Leaky]))
        services = Services(Settings(), cast(OpenMemory, no_network), no_network, credential=credential)
        run = WorkflowRun(workflow, INFO, services)
        outcome = await run.start("Start", [Item({"v": 1})])
        kept = run.run_data_json().decode()
        assert "1234567890" not in kept and "•••" in kept
        if raises:
            assert outcome.error is not None and outcome.error.message == "refused: •••"
        else:
            assert "https://api.example.com" in kept

    asyncio.run(main())


@pytest.mark.parametrize(
    "setting, workflow, failed, kept",
    [
        ("all", {}, False, True),
        ("errors", {}, False, False),
        ("errors", {}, True, True),
        ("none", {}, True, False),
        ("none", {"saveDataErrorExecution": "all"}, True, True),
        ("all", {"saveDataSuccessExecution": "none"}, False, False),
        ("all", {"saveDataSuccessExecution": "none"}, True, True),
    ],
)
def test_which_run_data_is_kept(setting: RunData, workflow: dict[str, Any], failed: bool, kept: bool) -> None:
    assert keeps_run_data(setting, workflow, failed=failed) is kept
