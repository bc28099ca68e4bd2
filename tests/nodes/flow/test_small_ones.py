"""No Operation, Stop and Error, Manual Trigger, Compare Datasets."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from convoq.errors import BadParameter, NodeFailed
from tests.engine.support import Finished, arun, node
from tests.nodes.running import on_items, outputs, pairs, parse

STOP, COMPARE = "n8n-nodes-base.stopAndError", "n8n-nodes-base.compareDatasets"


def test_no_operation_passes_items_on() -> None:
    done = on_items("n8n-nodes-base.noOp", 1, {}, [{"v": 1}, {}])
    assert outputs(done) == [[{"v": 1}, {}]]
    assert pairs(done) == [[(0, 0)], [(1, 0)]]


@pytest.mark.parametrize(
    "parameters, message",
    [
        ({"errorMessage": "={{ $json.v }} is too much"}, "7 is too much"),
        ({}, "An error occurred!"),
        ({"errorType": "errorObject", "errorObject": '{"code": 1, "message": "no way"}'}, "no way"),
        ({"errorType": "errorObject", "errorObject": {"error": "so it is"}}, "so it is"),
        ({"errorType": "errorObject", "errorObject": '{"code": 1}'}, 'Error: {"code":1}'),
    ],
)
def test_an_error_of_ones_own(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(NodeFailed) as caught:
        outputs(on_items(STOP, 1, parameters, [{"v": 7}]))
    assert caught.value.message == message


@pytest.mark.parametrize("wrong", ["{", "5"])
def test_an_error_object_has_to_be_one(wrong: str) -> None:
    with pytest.raises(BadParameter, match="errorObject"):
        outputs(on_items(STOP, 1, {"errorType": "errorObject", "errorObject": wrong}, [{}]))


@pytest.mark.parametrize("kind", ["n8n-nodes-base.manualTrigger", "n8n-nodes-base.start"])
def test_a_manual_trigger_gives_what_it_is_started_with(kind: str) -> None:
    workflow = parse([node("Start", kind), node("A", "pass", 200)], "Start > A")
    done: Finished = asyncio.run(arun(workflow, {"v": 1}))
    assert outputs(done, "A") == [[{"v": 1}]]


A: list[dict[str, Any]] = [{"id": 1, "v": 1}, {"id": 2, "v": 2}, {"id": 3, "v": 3, "at": 1}]
B: list[dict[str, Any]] = [{"id": 2, "v": 2}, {"id": 3, "v": "three", "at": 2}, {"id": 4, "v": 4}]
ON_ID = {"mergeByFields": {"values": [{"field1": "id", "field2": "id"}]}}


def compared(version: float = 2.3, **parameters: Any) -> list[list[dict[str, Any]]]:
    return outputs(on_items(COMPARE, version, {**ON_ID, **parameters}, A, B))


def test_two_datasets_are_compared() -> None:
    only_a, same, different, only_b = compared(options={"skipFields": "at"})
    assert (only_a, same, only_b) == ([A[0]], [A[1]], [B[2]])
    assert different == [
        {
            "keys": {"id": 3},
            "same": {"id": 3},
            "different": {"v": {"inputA": 3, "inputB": "three"}},
            "skipped": {"at": {"inputA": 1, "inputB": 2}},
        }
    ]
    assert pairs(on_items(COMPARE, 2.3, ON_ID, A, B), 2) == [[(2, 0), (1, 1)]]


@pytest.mark.parametrize(
    "version, parameters, expected",
    [
        (2.3, {"resolve": "preferInput1"}, A[2]),
        (2.3, {"resolve": "preferInput2"}, B[1]),
        (1, {}, B[1]),
        (2.3, {"resolve": "mix", "exceptWhenMix": "at"}, {"id": 3, "v": 3, "at": 2}),
        (2.3, {"resolve": "mix", "preferWhenMix": "input2", "exceptWhenMix": "at, x"}, {**B[1], "at": 1, "x": None}),
    ],
)
def test_what_is_told_of_a_difference(version: float, parameters: dict[str, Any], expected: dict[str, Any]) -> None:
    assert compared(version, **parameters)[2] == [expected]


def test_small_differences_may_be_none() -> None:
    one: list[dict[str, Any]] = [{"id": 1, "v": "1", "w": None, "l": "[1]"}]
    two: list[dict[str, Any]] = [{"id": "1", "v": 1, "l": [1]}]
    assert [len(items) for items in outputs(on_items(COMPARE, 2.3, ON_ID, one, two))] == [1, 0, 0, 1]
    assert [len(items) for items in outputs(on_items(COMPARE, 2.3, {**ON_ID, "fuzzyCompare": True}, one, two))] == [
        0,
        1,
        0,
        0,
    ]


def test_without_fields_to_match_nothing_can_be_compared() -> None:
    with pytest.raises(BadParameter, match="name at least one pair"):
        outputs(on_items(COMPARE, 2.3, {}, A, B))
