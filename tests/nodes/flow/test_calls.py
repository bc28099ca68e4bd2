"""Execute Workflow and its trigger."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from convoq.engine.workflow import Workflow
from convoq.errors import BadParameter, InvalidWorkflow, NodeFailed
from tests.engine.support import node
from tests.nodes.running import items_of, on_items, outputs, pairs, parse

CALL, TRIGGER = "n8n-nodes-base.executeWorkflow", "n8n-nodes-base.executeWorkflowTrigger"


def called(*then: dict[str, Any], version: float = 1.1, **parameters: Any) -> dict[str, Workflow]:
    """Workflow `sub`, which begins with the trigger."""
    nodes = [node("T", TRIGGER, version=version, parameters=parameters), *then]
    names = [str(one["name"]) for one in nodes]
    return {"sub": parse(nodes, *(f"{one} > {two}" for one, two in pairwise(names)))}


ANYTHING = called(inputSource="passthrough")
TO_SUB = {"workflowId": {"__rl": True, "mode": "list", "value": "sub"}}
ITEMS = [{"v": 1}, {"v": 2}]


def test_items_go_there_and_come_back() -> None:
    done = on_items(CALL, 1.2, TO_SUB, ITEMS, workflows=ANYTHING)
    assert outputs(done) == [ITEMS]
    assert pairs(done) == [[(0, 0)], [(1, 0)]]


@pytest.mark.parametrize("mode, runs", [("once", 1), ("each", 2)])
def test_one_call_or_a_call_for_each_item(mode: str, runs: int) -> None:
    sub = called(node("G", "give", 200, parameters={"items": [{"x": 1}, {"x": 2}, {"x": 3}]}), version=1)
    done = on_items(CALL, 1.2, {**TO_SUB, "mode": mode}, ITEMS, workflows=sub)
    assert len(outputs(done)[0]) == 3 * runs
    both = [(0, 0), (1, 0)]
    assert pairs(done) == ([both] * 3 if mode == "once" else [[(0, 0)]] * 3 + [[(1, 0)]] * 3)


def test_a_definition_may_be_called() -> None:
    given = {"source": "parameter", "workflowJson": '{"id": "sub"}'}
    assert outputs(on_items(CALL, 1.2, given, ITEMS, workflows=ANYTHING)) == [ITEMS]
    for wrong in ("{", "[]"):
        with pytest.raises(BadParameter, match="workflowJson"):
            outputs(on_items(CALL, 1.2, {**given, "workflowJson": wrong}, ITEMS, workflows=ANYTHING))


@pytest.mark.parametrize(
    "parameters, message",
    [
        ({"workflowId": "other"}, "there is no workflow 'other'"),
        ({}, "'workflowId' is empty"),
        ({"source": "localFile"}, "cannot be called: import it"),
        ({"source": "url"}, "cannot be called: import it"),
    ],
)
def test_what_cannot_be_called(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(NodeFailed, match=message):
        outputs(on_items(CALL, 1.1, parameters, ITEMS, workflows=ANYTHING))


FAILING = called(node("F", "fail", 200, parameters={"raises": "node"}), inputSource="passthrough")


def test_a_called_workflow_that_fails() -> None:
    with pytest.raises(NodeFailed, match="no luck"):
        outputs(on_items(CALL, 1.2, TO_SUB, ITEMS, workflows=FAILING))
    each = {**TO_SUB, "mode": "each"}
    found = outputs(on_items(CALL, 1.2, each, ITEMS, workflows=FAILING, onError="continueErrorOutput"))
    assert [item["v"] for item in found[1]] == [1, 2] and "no luck" in found[1][0]["error"]


def test_a_call_that_is_not_waited_for_passes_its_items_on() -> None:
    given = {**TO_SUB, "options": {"waitForSubWorkflow": False}}
    assert outputs(on_items(CALL, 1.2, given, ITEMS, workflows=ANYTHING)) == [ITEMS]
    done = on_items(CALL, 1.2, given, ITEMS, workflows=FAILING)
    assert outputs(done) == [ITEMS]
    assert "no luck" in done.run.run_data[-1].notes[0]


def test_a_workflow_that_calls_itself_without_end() -> None:
    again = called(node("Again", CALL, 200, version=1.1, parameters={"workflowId": "sub"}), inputSource="passthrough")
    with pytest.raises(NodeFailed, match="workflows call each other more than 10 deep"):
        outputs(on_items(CALL, 1.2, TO_SUB, ITEMS, workflows=again))


def test_a_called_workflow_may_wait_for_a_time() -> None:
    waiting = called(node("W", "n8n-nodes-base.wait", 200, version=1.1), inputSource="passthrough")
    done = on_items(CALL, 1.2, TO_SUB, ITEMS, workflows=waiting)
    assert outputs(done) == [ITEMS]
    assert done.clock.slept and 0 < done.clock.slept[0] <= 5


def inputs(*fields: dict[str, Any], convert: bool = False, **value: Any) -> dict[str, Any]:
    mapped = {"mappingMode": "defineBelow", "value": value, "schema": list(fields)}
    return {**TO_SUB, "workflowInputs": {**mapped, "attemptToConvertTypes": convert, "convertFieldsToString": True}}


def test_inputs_are_set_over_what_the_items_have() -> None:
    given = inputs({"id": "q"}, {"id": "v", "removed": True}, q="={{ $json.v }}", more=5)
    assert outputs(on_items(CALL, 1.2, given, ITEMS, workflows=ANYTHING)) == [
        [{"q": 1, "more": 5}, {"q": 2, "more": 5}]
    ]
    assert outputs(on_items(CALL, 1.1, given, ITEMS, workflows=ANYTHING)) == [ITEMS], "older versions map nothing"


def test_inputs_have_types() -> None:
    number, text = {"id": "n", "type": "number"}, {"id": "s", "type": "string"}
    with pytest.raises(BadParameter, match="item 0: input 'n' should be of type number, but is '5'"):
        outputs(on_items(CALL, 1.2, inputs(number, n="5"), ITEMS, workflows=ANYTHING))
    with pytest.raises(BadParameter, match="input 's' should be of type string, but is 5"):
        outputs(on_items(CALL, 1.2, inputs(text, s=5), ITEMS, workflows=ANYTHING))
    given = inputs(number, text, convert=True, n="5", s=5)
    found = outputs(on_items(CALL, 1.2, given, [{}], workflows=ANYTHING))
    assert found == [[{"n": 5, "s": "5"}]]


@pytest.mark.parametrize(
    "parameters, expected",
    [
        ({"workflowInputs": {"values": [{"name": "a"}, {"name": "c", "type": "number"}]}}, {"a": 1, "c": None}),
        ({"inputSource": "jsonExample", "jsonExample": '{"b": "text", "c": 0}'}, {"b": 2, "c": None}),
        ({"inputSource": "passthrough"}, {"a": 1, "b": 2}),
        ({}, {}),
    ],
)
def test_the_trigger_gives_the_inputs_that_it_declares(parameters: dict[str, Any], expected: dict[str, Any]) -> None:
    done = on_items(CALL, 1.2, TO_SUB, [{"a": 1, "b": 2}], workflows=called(**parameters))
    assert outputs(done) == [[expected]]


def test_the_first_trigger_declared_nothing() -> None:
    done = on_items(CALL, 1, {"workflowId": "sub"}, [{"a": 1}], workflows=called(version=1))
    assert items_of(done)[0][0].json == {"a": 1}


@pytest.mark.parametrize("wrong", ["{", "[1]"])
def test_an_example_that_is_no_object_is_a_fault(wrong: str) -> None:
    with pytest.raises(InvalidWorkflow, match="'T' parameter 'jsonExample'"):
        called(inputSource="jsonExample", jsonExample=wrong)
