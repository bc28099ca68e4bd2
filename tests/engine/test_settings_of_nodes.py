"""What a node's own settings do: disabled, executeOnce, alwaysOutputData, retryOnFail, onError."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from convoq.contract.connections import TOOL, ConnectionType
from convoq.contract.items import Item, origins
from convoq.contract.run_data import NodeRun
from convoq.errors import Fenced, Stopped, TimedOut
from tests.engine.support import Clock, arun, chain, make, node, run


def test_a_disabled_node_passes_its_items_on() -> None:
    done = run(chain(node("Off", "fail", disabled=True, parameters={"raises": "node"}), node("A", "pass")), {"v": 2})
    assert done.order == ["Start", "Off", "A"]
    assert done.outputs("A") == [[{"v": 2}]]


def test_a_disabled_node_passes_them_on_by_its_first_output_only() -> None:
    workflow = make(
        [node("Start", "start"), node("If", "choose", disabled=True), node("T", "pass", 400), node("F", "pass", 600)],
        *("Start > If", "If.0 > T", "If.1 > F"),
    )
    assert run(workflow, {"v": 1}).order == ["Start", "If", "T"]


def test_execute_once_takes_the_first_item() -> None:
    done = run(chain(node("A", "pass", executeOnce=True)), {"v": 1}, {"v": 2})
    assert done.outputs("A") == [[{"v": 1}]]


def test_always_output_data_makes_an_empty_item() -> None:
    workflow = chain(node("A", "give", alwaysOutputData=True), node("B", "pass"))
    done = run(workflow)
    assert done.order == ["Start", "A", "B"]
    assert done.outputs("B") == [[{}]]


def test_the_empty_item_comes_from_all_that_the_node_was_given() -> None:
    done = run(chain(node("A", "give", alwaysOutputData=True)), {"v": 1}, {"v": 2})
    made = done.run.state.history[-1].outputs[0][0]
    assert [(one.item, one.input) for one in origins(made.paired_item)] == [(0, 0), (1, 0)]


@pytest.mark.parametrize(
    "settings, times, tries, slept",
    [
        ({}, 1, 1, []),
        ({"retryOnFail": True}, 2, 3, [1.0, 1.0]),
        ({"retryOnFail": True, "maxTries": 2, "waitBetweenTries": 250}, 1, 2, [0.25]),
        ({"retryOnFail": True, "maxTries": 99, "waitBetweenTries": 60_000}, 9, 5, [5.0] * 4),
        ({"retryOnFail": True, "maxTries": 0, "waitBetweenTries": -1}, 9, 2, [0.0]),
    ],
)
def test_retries(settings: dict[str, Any], times: int, tries: int, slept: list[float]) -> None:
    done = run(chain(node("A", "fail", parameters={"raises": "value", "times": times}, **settings)))
    assert done.clock.slept == slept
    if times < tries:
        assert done.outcome.reply == {"tries": tries}
    else:
        assert done.outcome.error is not None
        assert done.outcome.error.message == "A: ValueError: no luck"


FAILING: dict[str, Any] = {"parameters": {"raises": "value"}}
ERROR = "A: ValueError: no luck"


def test_a_failure_stops_the_workflow() -> None:
    workflow = make(
        [node("Start", "start"), node("A", "fail", 200, **FAILING), node("Z", "pass", 200, 200)],
        *("Start > A", "Start > Z"),
    )
    done = run(workflow)
    assert done.order == ["Start", "A"]
    assert done.outcome.status == "error" and done.outcome.last_node == "A"
    assert done.outcome.reply == {"code": "node_failed", "message": ERROR, "node": "A"}
    assert done.run.run_data[-1].error == {"code": "node_failed", "message": ERROR}


@pytest.mark.parametrize("settings", [{"onError": "continueRegularOutput"}, {"continueOnFail": True}])
def test_on_error_continue_gives_an_error_item(settings: dict[str, Any]) -> None:
    done = run(chain(node("A", "fail", **FAILING, **settings), node("B", "pass")), {"v": 1}, {"v": 2})
    assert done.outcome.status == "success"
    assert done.outputs("B") == [[{"error": ERROR}, {"error": ERROR}]]
    assert done.run.run_data[1].error == {"code": "node_failed", "message": ERROR}


def test_on_error_output_keeps_the_item() -> None:
    workflow = make(
        [
            node("Start", "start"),
            node("A", "fail", 200, onError="continueErrorOutput", **FAILING),
            node("Good", "pass", 400),
            node("Bad", "pass", 400, 200),
        ],
        *("Start > A", "A.0 > Good", "A.1 > Bad"),
    )
    done = run(workflow, {"v": 1})
    assert done.order == ["Start", "A", "Bad"]
    assert done.outputs("Bad") == [[{"v": 1, "error": ERROR}]]


def test_each_item_fails_by_itself_and_only_the_last_try_makes_an_item_of_it() -> None:
    assignment = {"name": "n", "type": "number", "value": "={{ $json.v }}"}
    edit: dict[str, Any] = {"parameters": {"assignments": {"assignments": [assignment]}}, "version": 3.4}
    wrong = "A: item 1: field 'n' should be of type number, but is 'x'"
    items: list[dict[str, Any]] = [{"v": 1}, {"v": "x"}, {"v": 3}]
    regular = run(
        chain(node("A", "n8n-nodes-base.set", onError="continueRegularOutput", retryOnFail=True, **edit)), *items
    )
    assert regular.outputs("A") == [[{"n": 1}, {"error": wrong}, {"n": 3}]]
    assert regular.clock.slept == [1.0, 1.0]
    apart = run(chain(node("A", "n8n-nodes-base.set", onError="continueErrorOutput", **edit)), *items)
    assert apart.outputs("A") == [[{"n": 1}, {"n": 3}], [{"v": "x", "error": wrong}]]


@pytest.mark.parametrize("raises, error", [("stopped", Stopped), ("fenced", Fenced), ("timed out", TimedOut)])
def test_what_ends_a_run_from_outside_is_no_failure_of_a_node(raises: str, error: type[Exception]) -> None:
    settings: dict[str, Any] = {"onError": "continueRegularOutput", "retryOnFail": True}
    clock = Clock()
    with pytest.raises(error):
        asyncio.run(arun(chain(node("A", "fail", parameters={"raises": raises}, **settings)), clock=clock))
    assert clock.slept == []


def test_cancellation_is_never_swallowed() -> None:
    settings: dict[str, Any] = {"onError": "continueRegularOutput", "retryOnFail": True}
    with pytest.raises(asyncio.CancelledError):
        run(chain(node("A", "fail", parameters={"raises": "cancelled"}, **settings)))


def test_a_stream_too_large_fails_the_run_whatever_the_node_says() -> None:
    done = run(chain(node("A", "fail", onError="continueRegularOutput", parameters={"raises": "too large"})))
    assert done.outcome.error is not None and done.outcome.error.code == "stream_too_large"


def test_run_data_exactly() -> None:
    workflow = make(
        [
            node("Start", "start"),
            node("Say", "speaker", parameters={"value": "={{ $json.v }}"}),
            node("Low", "word", 0, 300, parameters={"value": "=low{{ $json.v }}"}),
            node("High", "word", 0, 100, parameters={"value": "high"}),
            node("Off", "word", 0, 0, disabled=True),
            node("Brain", "brain"),
        ],
        *("Start > Say", "Low > Say ai_tool", "High > Say ai_tool", "Off > Say ai_tool"),
        "Brain > Say ai_languageModel",
    )
    done = run(workflow, {"v": 7})
    tool = ConnectionType.TOOL
    assert done.run.run_data == [
        NodeRun("Start", 0, 1001.0, 1000.0, "main", [[{"v": 7}]], [[{"v": 7}]]),
        NodeRun("Say", 0, 1003.0, 5000.0, "main", [[{"v": 7}]], [[{"output": "high low7"}]]),
        NodeRun("High", 0, 1004.0, 1000.0, tool, [[{"item": 0}]], [[{"said": "high"}]]),
        NodeRun("Low", 0, 1006.0, 1000.0, tool, [[{"item": 0}]], [[{"said": "low7"}]]),
    ]


def test_a_failing_sub_run_names_its_node() -> None:
    workflow = make(
        [
            node("Start", "start"),
            node("Say", "speaker"),
            node("Word", "word", parameters={"value": "bad"}),
            node("Brain", "brain"),
        ],
        *("Start > Say", "Word > Say ai_tool", "Brain > Say ai_languageModel"),
    )
    done = run(workflow)
    assert done.outcome.last_node == "Say"
    assert done.outcome.reply == {"code": "model_failed", "message": "bad word", "node": "Word"}
    assert [record.error and record.error["code"] for record in done.run.run_data] == [
        None,
        "model_failed",
        "model_failed",
    ]


def test_a_sub_node_that_supplies_nothing_is_named() -> None:
    workflow = make(
        [
            node("Start", "start"),
            node("Say", "speaker"),
            node("Word", "word", parameters={"raises": "yes"}),
            node("Brain", "brain"),
        ],
        *("Start > Say", "Word > Say ai_tool", "Brain > Say ai_languageModel"),
    )
    assert run(workflow).outcome.reply == {
        "code": "node_failed",
        "message": "Word: RuntimeError: no word",
        "node": "Word",
    }


def test_run_data_is_kept_within_its_size() -> None:
    workflow = chain(node("A", "pass"), node("B", "give", parameters={"items": [{"small": 1}]}), node("C", "pass"))
    done = run(workflow, {"big": "x" * 5000}, run_data_max_bytes=1024)
    data = done.run.run_data_json()
    assert len(data) <= 1024
    assert data.count(b'{"truncated":true}') >= 3 and b'{"small":1}' in data
    tiny = run(chain(*(node(f"N{n}", "pass") for n in range(50))), run_data_max_bytes=1024)
    data = tiny.run.run_data_json()
    assert len(data) <= 1024 and b'"N49"' in data


def test_a_context_without_a_run_reaches_what_is_connected() -> None:
    workflow = make(
        [
            node("Start", "start"),
            node("Say", "speaker"),
            node("Word", "word", parameters={"value": "={{ $json.sessionId }}"}),
            node("Brain", "brain"),
        ],
        *("Start > Say", "Word > Say ai_tool", "Brain > Say ai_languageModel"),
    )
    done = run(workflow)
    context = done.run.context("Say", [Item({"sessionId": "s-9"})])
    supplied = asyncio.run(_supplied(context))
    assert supplied == [("Word", "s-9")]


async def _supplied(context: Any) -> list[tuple[str, str]]:
    return [(found.node.name, found.value) for found in await context.supplied(TOOL)]
