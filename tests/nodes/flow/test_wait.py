"""Wait: parked until its time, or until it is called."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from convoq.contract.waiting import Resumed, Wait
from convoq.engine.run import WorkflowRun
from convoq.engine.snapshot import freeze, thaw
from convoq.errors import BadParameter, InvalidWorkflow
from tests.engine.support import Finished, node, run
from tests.nodes.running import on_items, outputs, parse

WAIT = "n8n-nodes-base.wait"


def waits(version: float = 1.1, **parameters: Any) -> tuple[Wait, float]:
    """What it waits for, and how many seconds from about now."""
    done = on_items(WAIT, version, parameters, [{"v": 1}])
    wait = done.outcome.wait
    assert done.outcome.status == "waiting" and wait is not None
    return wait, (wait.until or 0) - done.clock.now


@pytest.mark.parametrize(
    "version, parameters, seconds",
    [
        (1.1, {}, 5),
        (1, {}, 3600),
        (1.1, {"amount": 30}, 30),
        (1.1, {"amount": "={{ '2.5' }} "}, 2.5),
        (1.1, {"amount": 2, "unit": "minutes"}, 120),
        (1.1, {"amount": 1, "unit": "days"}, 86400),
    ],
)
def test_for_a_time(version: float, parameters: dict[str, Any], seconds: float) -> None:
    wait, ahead = waits(version, **parameters)
    assert wait.for_ == "time"
    assert ahead == pytest.approx(seconds, abs=5)


def test_for_a_date() -> None:
    wait, _ = waits(resume="specificTime", dateTime="2030-01-01T00:00:00Z")
    assert wait == Wait("time", 1893456000)
    assert outputs(on_items(WAIT, 1.1, {"resume": "specificTime", "dateTime": "1969-01-01"}, [{"v": 1}])) == [
        [{"v": 1}]
    ]
    limit: dict[str, Any] = {
        "limitWaitTime": True,
        "limitType": "atSpecifiedTime",
        "maxDateAndTime": "2030-01-01T00:00:00Z",
    }
    assert waits(resume="webhook", **limit)[0] == Wait("call", 1893456000)
    with pytest.raises(BadParameter, match="'dateTime': 'soon' is no date and time"):
        outputs(on_items(WAIT, 1.1, {"resume": "specificTime", "dateTime": "soon"}, [{}]))


def test_no_time_at_all_is_no_wait() -> None:
    assert outputs(on_items(WAIT, 1.1, {"amount": 0}, [{"v": 1}])) == [[{"v": 1}]]
    with pytest.raises(InvalidWorkflow, match="'N' parameter 'amount'"):
        on_items(WAIT, 1.1, {"amount": -5}, [{"v": 1}])


def test_for_a_call() -> None:
    assert waits(resume="webhook")[0] == Wait("call", None)
    wait, ahead = waits(resume="form", limitWaitTime=True, resumeAmount=2, resumeUnit="minutes")
    assert wait.for_ == "call" and ahead == pytest.approx(120, abs=5)


def resumed(done: Finished, why: Resumed) -> Finished:
    """The run frozen, thawed in a fresh one, and gone on there."""
    fresh = WorkflowRun(done.run.state.workflow, done.run.state.info, done.run.state.services)
    thaw(freeze(done.run), fresh)
    finished = Finished(fresh, None, done.clock, [])
    finished.found = asyncio.run(fresh.resume(why))
    return finished


def test_its_items_go_on_when_the_time_has_come_and_what_was_sent_does_after_a_call() -> None:
    for parameters, why, expected in (
        ({}, Resumed("time"), {"v": 1}),
        ({"resume": "webhook"}, Resumed("given", {"body": {"ok": True}}), {"body": {"ok": True}}),
        ({"resume": "webhook"}, Resumed("expired"), {"v": 1}),
    ):
        nodes = [
            node("Start", "start"),
            node("W", WAIT, 200, version=1.1, parameters=parameters),
            node("A", "pass", 400),
        ]
        done = resumed(run(parse(nodes, "Start > W", "W > A"), {"v": 1}), why)
        assert outputs(done, "A") == [[expected]]


def test_a_wait_in_a_loop_goes_on_with_the_loop_in_another_process() -> None:
    nodes = [
        node("Start", "start"),
        node("Loop", "n8n-nodes-base.splitInBatches", 200, version=3),
        node("W", WAIT, 400, version=1.1),
        node("Done", "pass", 600),
    ]
    workflow = parse(nodes, "Start > Loop", "Loop.1 > W", "W > Loop", "Loop.0 > Done")
    done = run(workflow, {"v": 1}, {"v": 2})
    for _ in range(2):
        assert done.outcome.status == "waiting"
        done = resumed(done, Resumed("time"))
    assert outputs(done, "Done") == [[{"v": 1}, {"v": 2}]]
