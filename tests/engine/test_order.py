"""The order in which nodes run, held against what n8n does with the same workflows."""

from __future__ import annotations

import pytest

from tests.engine.support import make, node, run

START = node("Start", "start")


def test_the_upper_branch_runs_to_its_end_before_the_lower_one() -> None:
    workflow = make(
        [
            START,
            node("Low", "pass", 200, 300),
            node("Low2", "pass", 400, 300),
            node("High", "pass", 200, 0),
            node("High2", "pass", 400, 0),
        ],
        "Start > Low",
        "Start > High",
        "Low > Low2",
        "High > High2",
    )
    assert run(workflow).order == ["Start", "High", "High2", "Low", "Low2"]


def test_of_two_at_the_same_height_the_left_one_is_first() -> None:
    workflow = make([START, node("Right", "pass", 400), node("Left", "pass", 200)], "Start > Right", "Start > Left")
    assert run(workflow).order == ["Start", "Left", "Right"]


def test_two_branches_into_one_input_run_it_twice() -> None:
    workflow = make(
        [START, node("A", "pass", 200), node("B", "pass", 200, 200), node("C", "pass", 600)],
        "Start > A",
        "Start > B",
        "A > C",
        "B > C",
    )
    done = run(workflow)
    assert done.order == ["Start", "A", "C", "B", "C"]
    assert [record.run_index for record in done.run.run_data if record.node == "C"] == [0, 1]


def test_both_outputs_into_one_input() -> None:
    workflow = make([START, node("If", "choose", 200), node("C", "pass", 400)], "Start > If", "If.0 > C", "If.1 > C")
    done = run(workflow, {"v": 1}, {"v": 2}, {"v": 3})
    assert [done.outputs("C", 0), done.outputs("C", 1)] == [[[{"v": 1}]], [[{"v": 2}, {"v": 3}]]]


def test_a_node_without_items_does_not_run() -> None:
    workflow = make(
        [START, node("If", "choose", 200), node("T", "pass", 400), node("F", "pass", 400, 200)],
        "Start > If",
        "If.0 > T",
        "If.1 > F",
    )
    assert run(workflow, {"v": 1}).order == ["Start", "If", "F"]


MERGE = [
    START,
    node("A", "pass", 200),
    node("A1", "pass", 400),
    node("B", "pass", 200, 200),
    node("M", "merge", 600, 100),
    node("End", "pass", 800, 100),
]


@pytest.mark.parametrize("a, b", [(0, 1), (1, 0)])
def test_a_merge_waits_for_all_its_inputs(a: int, b: int) -> None:
    workflow = make(MERGE, "Start > A", "Start > B", "A > A1", f"A1 > M.{a}", f"B > M.{b}", "M > End")
    done = run(workflow)
    assert done.order == ["Start", "A", "A1", "B", "M", "End"]
    assert done.outputs("M") == [[{"v": 1}, {"v": 1}]]


def test_a_merge_does_not_wait_for_what_cannot_come() -> None:
    workflow = make(
        [
            START,
            node("If", "choose", 200),
            node("A", "pass", 400),
            node("B", "pass", 400, 200),
            node("M", "merge", 800),
        ],
        "Start > If",
        "If.0 > A",
        "If.1 > B",
        "A > M.0",
        "B > M.1",
    )
    assert run(workflow, {"v": 1}).order == ["Start", "If", "B", "M"]


def test_a_merge_of_nothing_does_not_run() -> None:
    workflow = make(
        [START, node("C", "give", 200), node("B", "give", 200, 200), node("M", "merge", 600)],
        "Start > C",
        "Start > B",
        "C > M.0",
        "B > M.1",
    )
    assert run(workflow).order == ["Start", "C", "B"]


def test_two_branches_into_one_input_of_a_merge() -> None:
    workflow = make(
        [
            START,
            node("A", "pass", 200),
            node("B", "pass", 200, 100),
            node("C", "pass", 200, 200),
            node("M", "merge", 800),
        ],
        "Start > A",
        "Start > B",
        "Start > C",
        "A > M.0",
        "B > M.0",
        "C > M.1",
    )
    done = run(workflow)
    assert done.order == ["Start", "A", "B", "C", "M", "M"]
    assert [len(done.outputs("M", index)[0]) for index in (0, 1)] == [2, 1]


def test_a_merge_behind_a_merge() -> None:
    workflow = make(
        [
            START,
            *(node(name, "pass", 200, 100 * row) for row, name in enumerate("ABC")),
            node("M1", "merge", 800),
            node("M2", "merge", 1000),
        ],
        *("Start > A", "Start > B", "Start > C"),
        *("A > M1.0", "B > M1.1", "M1 > M2.0", "C > M2.1"),
    )
    assert run(workflow).order == ["Start", "A", "B", "M1", "C", "M2"]


def test_a_loop_that_ends() -> None:
    workflow = make([START, node("A", "pass", 200), node("B", "count", 400)], "Start > A", "A > B", "B > A")
    assert run(workflow).order == ["Start", *["A", "B"] * 4]


def test_a_loop_without_end_is_stopped_and_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("convoq.engine.run.MAX_NODE_RUNS", 100)
    workflow = make([START, node("A", "pass", 200), node("B", "pass", 400)], "Start > A", "A > B", "B > A")
    done = run(workflow)
    assert done.outcome.error is not None and done.outcome.error.code == "node_failed"
    assert done.outcome.error.details["node"] == done.outcome.last_node
    assert "100 node runs" in done.outcome.error.message
    assert len(done.order) == 100


def test_a_run_starts_only_at_an_enabled_trigger() -> None:
    nodes = [node("Start", "start", disabled=True), node("A", "pass", 200)]
    outcome = run(make(nodes, "Start > A")).outcome
    assert outcome.status == "error" and "no enabled trigger 'Start'" in outcome.reply["message"]


BRANCHES = [
    START,
    node("Low", "pass", 200, 300),
    node("Low2", "pass", 400, 300),
    node("High", "pass", 200, 0),
    node("High2", "pass", 400, 0),
]
TWO_BRANCHES = ("Start > Low", "Start > High", "Low > Low2", "High > High2")


@pytest.mark.parametrize("order", [None, "v0"])
def test_the_old_order_takes_a_step_of_each_branch_in_turn_as_they_were_drawn(order: str | None) -> None:
    workflow = make(BRANCHES, *TWO_BRANCHES, order=order)
    assert run(workflow).order == ["Start", "Low", "High", "Low2", "High2"]


def test_in_the_old_order_a_merge_waits_for_the_longer_branch() -> None:
    nodes = [START, node("A", "pass"), node("B", "pass"), node("A1", "pass"), node("M", "merge"), node("End", "pass")]
    links = ("Start > A", "Start > B", "A > A1", "A1 > M.0", "B > M.1", "M > End")
    assert run(make(nodes, *links, order=None)).order == ["Start", "A", "B", "A1", "M", "End"]


def test_in_the_old_order_two_branches_into_one_input_run_it_last() -> None:
    nodes = [START, node("A", "pass"), node("B", "pass"), node("C", "pass")]
    workflow = make(nodes, "Start > A", "Start > B", "A > C", "B > C", order=None)
    assert run(workflow).order == ["Start", "A", "B", "C", "C"]


def test_a_branch_without_items_does_not_run_in_the_old_order_either() -> None:
    nodes = [START, node("If", "choose"), node("A", "pass"), node("B", "pass"), node("M", "merge")]
    links = ("Start > If", "If.0 > A", "If.1 > B", "A > M.0", "B > M.1")
    done = run(make(nodes, *links, order=None), {"v": 1})
    assert done.order == ["Start", "If", "B", "M"]
    assert done.outputs("M") == [[{"v": 1}]]
