"""Loop Over Items, and what expressions see inside of loops."""

from __future__ import annotations

from typing import Any

import pytest

from tests.engine.support import Finished, node, run
from tests.nodes.running import items_of, pairs, parse

LOOP = "n8n-nodes-base.splitInBatches"
SET = "n8n-nodes-base.set"


def looping(version: float, *items: dict[str, Any], body: dict[str, Any] | None = None, **parameters: Any) -> Finished:
    done, loop = {1: (None, 0), 2: (1, 0), 3: (0, 1)}[int(version)]
    body = body or node("Body", "pass", 400)
    nodes = [node("Start", "start"), node("Loop", LOOP, 200, version=version, parameters=parameters), body]
    links = ["Start > Loop", f"Loop.{loop} > Body", "Body > Loop"]
    if done is not None:
        nodes.append(node("Done", "pass", 600))
        links.append(f"Loop.{done} > Done")
    return run(parse(nodes, *links), *items)


@pytest.mark.parametrize("version", [2, 3])
def test_a_batch_at_a_time_and_all_at_the_end(version: float) -> None:
    done = looping(version, {"v": 0}, {"v": 1}, {"v": 2}, batchSize=2)
    assert done.order == ["Start", "Loop", "Body", "Loop", "Body", "Loop", "Done"]
    assert [done.outputs("Body", at)[0] for at in (0, 1)] == [[{"v": 0}, {"v": 1}], [{"v": 2}]]
    assert done.outputs("Done")[0] == [{"v": 0}, {"v": 1}, {"v": 2}]


def test_the_first_version_has_no_end() -> None:
    assert looping(1, {"v": 0}, {"v": 1}).order == ["Start", "Loop", "Body", "Loop", "Body", "Loop"]


def test_what_the_body_made_comes_out_at_the_end() -> None:
    body = node("Body", "give", 400, parameters={"items": [{"x": 1}, {"x": 2}]})
    done = looping(3, {"v": 0}, {"v": 1}, body=body)
    assert done.outputs("Done")[0] == [{"x": 1}, {"x": 2}] * 2


def test_a_body_without_items_ends_the_loop() -> None:
    assert looping(3, {"v": 0}, body=node("Body", "give", 400)).order == ["Start", "Loop", "Body"]


def reference(name: str, x: float, expression: str) -> dict[str, Any]:
    fields = {"assignments": [{"id": "0", "name": "ref", "type": "number", "value": expression}]}
    return node(name, SET, x, version=3.4, parameters={"assignments": fields, "includeOtherFields": True})


def test_items_of_a_later_batch_know_the_item_they_were() -> None:
    nodes = [
        node("Start", "start"),
        node("Loop", LOOP, 200, version=3),
        reference("Body", 400, "={{ $('Start').item.json.v }}"),
        reference("Done", 600, "={{ $('Body').item.json.ref }}"),
    ]
    done = run(parse(nodes, "Start > Loop", "Loop.1 > Body", "Body > Loop", "Loop.0 > Done"), {"v": 5}, {"v": 6})
    assert [item.json["ref"] for item in items_of(done, "Done")[0]] == [5, 6]
    assert pairs(done, 0, "Loop") == [[(0, 0)], [(0, 0)]]
    assert [done.outputs("Body", at)[0][0]["ref"] for at in (0, 1)] == [5, 6]


def test_an_inner_loop_begins_anew_where_it_is_told_to() -> None:
    nodes = [
        node("Start", "start"),
        node("Outer", LOOP, 200, version=3),
        node("Make", "give", 400, parameters={"items": [{"k": "a", "new": True}, {"k": "b", "new": True}]}),
        node("Inner", LOOP, 600, version=3, parameters={"options": {"reset": "={{ $json.new }}"}}),
        node("In", "give", 800, parameters={"items": [{"k": "made", "new": False}]}),
        node("Done", "pass", 1000),
    ]
    links = ("Start > Outer", "Outer.1 > Make", "Make > Inner", "Inner.1 > In", "In > Inner", "Inner.0 > Outer")
    done = run(parse(nodes, *links, "Outer.0 > Done"), {"v": 0}, {"v": 1})
    once = ["Make", "Inner", "In", "Inner", "In", "Inner", "Outer"]
    assert done.order == ["Start", "Outer", *once, *once, "Done"]
    assert len(done.outputs("Done")[0]) == 4


def test_an_inner_loop_that_is_not_told_so_is_through_after_the_first_time() -> None:
    nodes = [
        node("Start", "start"),
        node("Outer", LOOP, 200, version=3),
        node("Inner", LOOP, 600, version=3),
        node("In", "pass", 800),
    ]
    links = ("Start > Outer", "Outer.1 > Inner", "Inner.1 > In", "In > Inner", "Inner.0 > Outer")
    done = run(parse(nodes, *links), {"v": 0}, {"v": 1})
    assert done.order == ["Start", "Outer", "Inner", "In", "Inner", "Outer", "Inner", "Outer"]


def test_expressions_see_what_a_loop_keeps() -> None:
    nodes = [
        node("Start", "start"),
        node("Loop", LOOP, 200, version=3),
        reference("Body", 400, "={{ $('Loop').context.currentRunIndex }}"),
        reference("Done", 600, "={{ $node['Loop'].context.done && $('Start').context.nothing === undefined ? 1 : 0 }}"),
    ]
    done = run(parse(nodes, "Start > Loop", "Loop.1 > Body", "Body > Loop", "Loop.0 > Done"), {"v": 5}, {"v": 6})
    assert [done.outputs("Body", at)[0][0]["ref"] for at in (0, 1)] == [0, 1]
    assert [item.json["ref"] for item in items_of(done, "Done")[0]] == [1, 1]


def test_what_a_loop_keeps() -> None:
    done = looping(3, {"v": 0}, {"v": 1}, {"v": 2}, batchSize=2)
    kept = done.run.state.kept["Loop"]
    assert {name: kept[name] for name in ("currentRunIndex", "maxRunIndex", "noItemsLeft", "done")} == {
        "currentRunIndex": 2,
        "maxRunIndex": 2,
        "noItemsLeft": True,
        "done": True,
    }
