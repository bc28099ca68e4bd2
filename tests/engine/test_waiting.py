"""A node that waits parks its run, which goes on where it stopped, also from bytes in another process."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, cast

import pytest

from convoq.contract.context import RunContext
from convoq.contract.items import Item, Outputs
from convoq.contract.node import MainNode
from convoq.contract.services import OpenMemory, Services
from convoq.contract.waiting import Resumed, Wait
from convoq.engine.reading import parse_workflow
from convoq.engine.run import WorkflowRun
from convoq.engine.snapshot import freeze, thaw
from convoq.engine.wait_here import wait_here
from convoq.engine.workflow import Workflow
from convoq.errors import ExecutionFailed
from convoq.nodes.registry import by_type
from convoq.settings import Settings
from tests.engine.support import INFO, AnyParameters, Clock, Give, Merge, Pass, Start, no_network, node, workflow_json


class Ask(MainNode[AnyParameters]):
    """Waits for a message; its `again` parameter has it wait once more."""

    type, versions, parameters_class = "ask", (1, 1), AnyParameters

    async def run(self, ctx: RunContext[Any]) -> Outputs | Wait:
        return Wait("message", state={"asked": 1}, say={"text": "go on?"})

    async def resume(self, ctx: RunContext[Any], state: Mapping[str, Any], resumed: Resumed) -> Outputs | Wait:
        parameters = await ctx.parameters()
        if parameters.value == "again" and state["asked"] == 1:
            return Wait("message", state={"asked": 2})
        given = {"asked": state["asked"], "why": resumed.why, **resumed.given, "first": ctx.items[0].json}
        return [[Item(given, paired_item=0)]]


class Pause(MainNode[AnyParameters]):
    type, versions, parameters_class = "pause", (1, 1), AnyParameters

    async def run(self, ctx: RunContext[Any]) -> Outputs | Wait:
        return Wait("time", until=ctx.services.clock() + 100)

    async def resume(self, ctx: RunContext[Any], state: Mapping[str, Any], resumed: Resumed) -> Outputs | Wait:
        return [list(ctx.items)]


def workflow(*middle: Any, links: tuple[str, ...]) -> Workflow:
    registry = by_type([Start, Pass, Give, Merge, Ask, Pause])
    data = workflow_json([node("Start", "start"), *middle], *links)
    return parse_workflow(data, source="t", registry=registry, strict=True)


def fresh(of: Workflow, clock: Clock | None = None) -> WorkflowRun:
    services = Services(Settings(), cast(OpenMemory, no_network), no_network, clock=clock or Clock())
    return WorkflowRun(of, INFO, services)


ASKS = workflow(
    node("Before", "pass"),
    node("Ask", "ask"),
    node("After", "pass"),
    node("Side", "pass", y=500),
    links=("Start > Before", "Before > Ask", "Ask > After", "Start > Side"),
)


async def parked(of: Workflow = ASKS) -> WorkflowRun:
    run = fresh(of)
    outcome = await run.start("Start", [Item({"v": 7})])
    assert outcome.status == "waiting" and outcome.last_node == "Ask" and outcome.wait is not None
    return run


def test_a_run_goes_on_where_it_stopped() -> None:
    async def main() -> None:
        run = await parked()
        assert [record.node for record in run.run_data] == ["Start", "Before", "Ask"]
        outcome = await run.resume(Resumed("given", {"chatInput": "yes"}))
        assert outcome.status == "success"
        assert [record.node for record in run.run_data] == ["Start", "Before", "Ask", "After", "Side"]
        assert run.run_data[3].outputs == [[{"asked": 1, "why": "given", "chatInput": "yes", "first": {"v": 7}}]]

    asyncio.run(main())


def test_a_frozen_run_goes_on_in_another_process() -> None:
    async def main() -> None:
        data = freeze(await parked())
        run = fresh(ASKS)
        thaw(data, run)
        outcome = await run.resume(Resumed("expired"))
        assert outcome.status == "success"
        assert [record.node for record in run.run_data] == ["Start", "Before", "Ask", "After", "Side"]
        assert run.run_data[3].outputs[0][0]["why"] == "expired"
        assert await run.context("After", [Item({})]).evaluate("={{ $('Before').first().json.v }}") == 7

    asyncio.run(main())


def test_waiting_twice_and_inputs_that_wait() -> None:
    merged = workflow(
        node("Ask", "ask", parameters={"value": "again"}),
        node("Late", "pass", y=100),
        node("Merge", "merge"),
        links=("Start > Ask", "Start > Late", "Ask > Merge", "Late > Merge.1"),
    )

    async def main() -> None:
        data = freeze(await parked(merged))
        for _ in range(2):
            run = fresh(merged)
            thaw(data, run)
            outcome = await run.resume(Resumed("given", {"n": 1}))
            if outcome.status == "waiting":
                data = freeze(run)
        assert outcome.status == "success" and outcome.last_node == "Merge"
        assert [item["v"] if "v" in item else item["asked"] for item in outcome.items] == [2, 7]

    asyncio.run(main())


def test_a_changed_workflow_is_told_of() -> None:
    other = workflow(node("Ask", "ask"), links=("Start > Ask",))

    async def main() -> None:
        data = freeze(await parked())
        with pytest.raises(ExecutionFailed, match="'Before' is gone"):
            thaw(data, fresh(other))
        with pytest.raises(ExecutionFailed, match="no node of this execution waits"):
            await fresh(other).resume(Resumed("time"))

    asyncio.run(main())


def test_times_are_waited_for_in_place_and_nothing_else_is() -> None:
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    async def main() -> None:
        pauses = workflow(node("Pause", "pause"), links=("Start > Pause",))
        run = fresh(pauses)
        outcome = await wait_here(run, await run.start("Start", [Item({"v": 1})]), sleep=sleep)
        assert outcome.status == "success" and outcome.items == [{"v": 1}]
        assert len(slept) == 1 and 90 < slept[0] <= 100
        run = fresh(ASKS)
        outcome = await wait_here(run, await run.start("Start", [Item({"v": 1})]), sleep=sleep)
        assert outcome.error is not None and "waits for a message" in outcome.error.message

    asyncio.run(main())
