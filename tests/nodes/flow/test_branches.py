"""If, Filter and Switch: where each item goes."""

from __future__ import annotations

from typing import Any

import pytest

from convoq.errors import BadParameter, NodeFailed
from tests.nodes.flow.test_conditions import condition, conditions
from tests.nodes.running import items_of, on_items, outputs, pairs

IF, FILTER, SWITCH = (f"n8n-nodes-base.{name}" for name in ("if", "filter", "switch"))
OVER_2 = {"conditions": conditions(condition("number", "gt", 2))}
ITEMS = [{"v": 1}, {"v": 3}, {"v": 5}]
MIXED: list[dict[str, Any]] = [{"v": 1}, {"v": "x"}, {"v": 5}]


def test_if_sends_items_two_ways_and_knows_where_they_came_from() -> None:
    done = on_items(IF, 2.2, OVER_2, ITEMS)
    assert outputs(done) == [[{"v": 3}, {"v": 5}], [{"v": 1}]]
    assert [pairs(done, 0), pairs(done, 1)] == [[[(1, 0)], [(2, 0)]], [[(0, 0)]]]


def test_if_that_goes_on_after_an_error_takes_the_condition_as_not_fulfilled() -> None:
    done = on_items(IF, 2.2, OVER_2, MIXED, onError="continueRegularOutput")
    assert outputs(done) == [[{"v": 5}], [{"v": 1}, {"v": "x"}]]


@pytest.mark.parametrize("kind, kept", [(IF, [[{"v": 5}], [{"v": 1}]]), (FILTER, [[{"v": 5}]])])
def test_the_error_output_gets_what_could_not_be_decided(kind: str, kept: list[list[dict[str, Any]]]) -> None:
    *regular, failed = outputs(on_items(kind, 2.2, OVER_2, MIXED, onError="continueErrorOutput"))
    assert regular == kept
    assert [set(item) for item in failed] == [{"v", "error"}] and failed[0]["v"] == "x"


def test_filter_keeps_what_fulfils_the_conditions() -> None:
    assert outputs(on_items(FILTER, 2.2, OVER_2, ITEMS)) == [[{"v": 3}, {"v": 5}], [{"v": 1}]]
    old = {"conditions": {"number": [{"value1": "={{ $json.v }}", "operation": "larger", "value2": 4}]}}
    assert outputs(on_items(FILTER, 1, old, ITEMS))[0] == [{"v": 5}]
    either = {"conditions": {**old["conditions"], "boolean": [{"value1": True, "value2": True}]}}
    assert outputs(on_items(FILTER, 1, {**either, "combineConditions": "OR"}, ITEMS))[0] == ITEMS


def rule(operation: str, right: str) -> dict[str, Any]:
    return {"conditions": conditions(condition("string", operation, right))}


RULES = {"rules": {"values": [rule("equals", "a"), rule("contains", "b"), rule("contains", "a")]}}
LETTERS = [{"v": "a"}, {"v": "b"}, {"v": "ab"}, {"v": "z"}]


@pytest.mark.parametrize(
    "options, expected",
    [
        ({}, [["a"], ["b", "ab"], []]),
        ({"fallbackOutput": "none"}, [["a"], ["b", "ab"], []]),
        ({"fallbackOutput": "extra"}, [["a"], ["b", "ab"], [], ["z"]]),
        ({"fallbackOutput": 1}, [["a"], ["b", "ab", "z"], []]),
        ({"fallbackOutput": "0"}, [["a", "z"], ["b", "ab"], []]),
        ({"allMatchingOutputs": True}, [["a"], ["b", "ab"], ["a", "ab"]]),
        ({"allMatchingOutputs": True, "fallbackOutput": "extra"}, [["a"], ["b", "ab"], ["a", "ab"], ["z"]]),
    ],
)
def test_switch_by_rules(options: dict[str, Any], expected: list[list[str]]) -> None:
    found = outputs(on_items(SWITCH, 3.2, {**RULES, "options": options}, LETTERS))
    assert [[item["v"] for item in items] for items in found] == expected


def test_switch_by_a_number() -> None:
    given = {"mode": "expression", "numberOutputs": 3, "output": "={{ $json.v }}"}
    assert outputs(on_items(SWITCH, 3, given, [{"v": 2}, {"v": "0"}])) == [[{"v": "0"}], [], [{"v": 2}]]
    for wrong in (-1, 3):
        with pytest.raises(BadParameter, match=f"item 0: there is no output {wrong}, only 0 to 2"):
            outputs(on_items(SWITCH, 3, given, [{"v": wrong}]))


def test_the_old_switches() -> None:
    numbers = {
        "value1": "={{ $json.v }}",
        "rules": {"rules": [{"operation": "larger", "value2": 4, "output": 2}, {"operation": "equal", "value2": 3}]},
    }
    assert outputs(on_items(SWITCH, 1, numbers, ITEMS)) == [[{"v": 3}], [], [{"v": 5}], []]
    texts = {
        "dataType": "string",
        "value1": "={{ $json.v }}",
        "rules": {"rules": [{"value2": "a"}, {"operation": "contains", "value2": "b"}]},
        "fallbackOutput": 1,
    }
    assert outputs(on_items(SWITCH, 2, texts, LETTERS)) == [[{"v": "a"}], [{"v": "b"}, {"v": "ab"}, {"v": "z"}]]


def test_a_switch_that_fails() -> None:
    given = {"rules": {"values": [{"conditions": conditions(condition("number", "equals", 5))}, rule("equals", "x")]}}
    with pytest.raises(NodeFailed, match="item 1, condition 1"):
        outputs(on_items(SWITCH, 3.2, given, [{"v": 5}, {"v": "x"}]))
    regular, second, failed = items_of(
        on_items(SWITCH, 3.2, given, [{"v": 5}, {"v": "x"}], onError="continueErrorOutput")
    )
    assert ([item.json for item in regular], second) == ([{"v": 5}], [])
    assert failed[0].json["v"] == "x" and "should be of type number" in failed[0].json["error"]
    told, _ = outputs(on_items(SWITCH, 3.2, given, [{"v": "x"}], onError="continueRegularOutput"))
    assert set(told[0]) == {"error"}


def test_files_go_with_their_items() -> None:
    assert [item.binary for item in items_of(on_items(IF, 2.2, OVER_2, ITEMS))[0]] == [None, None]
