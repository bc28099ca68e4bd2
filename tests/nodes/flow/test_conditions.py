"""The conditions of If, Filter and Switch; the values are n8n's."""

from __future__ import annotations

from typing import Any

import pytest

from convoq.errors import NodeFailed
from tests.engine.support import node
from tests.nodes.running import on_items, outputs, parse

FAILS = "fails"
IF = "n8n-nodes-base.if"


def condition(
    kind: str, operation: str, right: Any = "", left: Any = "={{ $json.v }}", **operator: Any
) -> dict[str, Any]:
    return {"leftValue": left, "rightValue": right, "operator": {"type": kind, "operation": operation, **operator}}


def conditions(*given: dict[str, Any], combinator: str = "and", **options: Any) -> dict[str, Any]:
    options = {"caseSensitive": True, "typeValidation": "strict", "version": 2, **options}
    return {"options": options, "combinator": combinator, "conditions": list(given)}


def holds(value: Any, given: dict[str, Any], **options: Any) -> bool | str:
    done = on_items(IF, 2.2, {"conditions": conditions(given, **options)}, [{"v": value}])
    if done.outcome.error is not None:
        return FAILS
    return bool(outputs(done)[0])


@pytest.mark.parametrize(
    "kind, operation, right, values",
    [
        ("string", "equals", "abc", {"abc": True, "ABC": False, "": False, None: False, 5: FAILS}),
        ("string", "notContains", "b", {"abc": False, "x": True, "": True}),
        ("string", "startsWith", "ab", {"abc": True, "xab": False}),
        ("string", "notEndsWith", "c", {"abc": False, "ab": True}),
        ("string", "empty", "", {"": True, None: True, " ": False}),
        ("string", "exists", "", {"": True, None: False}),
        ("string", "notExists", "", {"": False, None: True}),
        ("number", "gt", 4, {5: True, 4: False, None: False, "5": FAILS, True: FAILS, 4.01: True}),
        ("number", "lte", 4, {4: True, 4.5: False}),
        ("number", "equals", 1, {1: True, 2: False}),
        ("number", "empty", "", {0: False, None: True}),
        ("boolean", "true", "", {True: True, False: False, None: False, "true": FAILS}),
        ("boolean", "false", "", {True: False, False: True, None: True}),
        ("boolean", "notEquals", True, {True: False, False: True}),
    ],
)
def test_strict_types(kind: str, operation: str, right: Any, values: dict[Any, bool | str]) -> None:
    single = {"singleValue": True} if right == "" else {}
    given = condition(kind, operation, right, **single)
    assert {value: holds(value, given) for value in values} == values


@pytest.mark.parametrize(
    "kind, operation, right, value, expected",
    [
        ("string", "contains", "5", 5, True),
        ("string", "contains", "5", ["abc", 5], True),
        ("string", "equals", "true", True, True),
        ("number", "gt", 4, "5", True),
        ("number", "gt", 4, " 7 ", True),
        ("number", "gt", -1, "", True),
        ("number", "gt", 4, "five", FAILS),
        ("number", "gt", 4, {}, FAILS),
        ("boolean", "true", "", "yes", True),
        ("boolean", "true", "", "false", False),
        ("boolean", "true", "", [], False),
        ("boolean", "true", "", {"a": 1}, True),
        ("array", "contains", "x", '["x"]', True),
        ("array", "contains", "x", "x", FAILS),
        ("object", "notEmpty", "", '{"a":1}', True),
    ],
)
def test_loose_types(kind: str, operation: str, right: Any, value: Any, expected: bool | str) -> None:
    single: dict[str, Any] = {"singleValue": True} if right == "" else {"rightType": "any"} if kind == "array" else {}
    assert holds(value, condition(kind, operation, right, **single), typeValidation="loose") == expected


@pytest.mark.parametrize(
    "operation, right, value, expected",
    [
        ("contains", 2, [1, 2], True),
        ("contains", "2", [1, 2], False),
        ("contains", True, [1], False),
        ("notContains", 3, [], True),
        ("lengthEquals", 2, [1, 2], True),
        ("lengthGt", 2, [1, 2], False),
        ("lengthLte", 0, None, True),
        ("notEmpty", "", [1], True),
    ],
)
def test_arrays(operation: str, right: Any, value: Any, expected: bool) -> None:
    kind = "number" if operation.startswith("length") else "any"
    assert holds(value, condition("array", operation, right, rightType=kind)) is expected


def test_case_may_be_ignored() -> None:
    given = condition("string", "contains", "HeL")
    assert holds("Hello", given) is False
    assert holds("Hello", given, caseSensitive=False) is True
    assert holds(["HELLO"], condition("array", "contains", "hello", rightType="any"), caseSensitive=False) is True


def test_an_empty_text_is_no_number_from_version_3_of_the_parameter_on() -> None:
    given = condition("number", "exists", singleValue=True)
    assert holds("", given, typeValidation="loose") is True
    assert holds("", given, typeValidation="loose", version=3) is False


def test_all_or_any_and_no_more_than_needed_is_asked() -> None:
    first, wrong = condition("string", "equals", "x"), condition("number", "gt", 1)
    assert outputs(on_items(IF, 2.2, {"conditions": conditions(first, wrong)}, [{"v": "y"}])) == [[], [{"v": "y"}]]
    either = {"conditions": conditions(first, wrong, combinator="or")}
    assert outputs(on_items(IF, 2.2, either, [{"v": "x"}])) == [[{"v": "x"}], []]


def test_without_conditions_all_of_them_hold_and_none_of_any() -> None:
    assert outputs(on_items(IF, 2.2, {}, [{"v": 1}]))[0]
    assert outputs(on_items(IF, 2.2, {"conditions": conditions()}, [{"v": 1}]))[0]
    assert not outputs(on_items(IF, 2.2, {"conditions": conditions(combinator="or")}, [{"v": 1}]))[0]


def test_a_wrong_value_is_told_with_its_place() -> None:
    done = on_items(IF, 2.2, {"conditions": conditions(condition("number", "gt", 1))}, [{"v": 2}, {"v": "x"}])
    with pytest.raises(NodeFailed, match=r"item 1, condition 1: the left value should be of type number, but is 'x'"):
        outputs(done)


def test_a_comparison_that_there_is_none_of_never_holds_and_is_told() -> None:
    given = {"conditions": conditions(condition("number", "largerEqual", 1))}
    done = on_items(IF, 2.2, given, [{"v": 2}])
    assert outputs(done) == [[], [{"v": 2}]]
    said = "there is no comparison number:largerEqual: such a condition never holds"
    assert done.run.run_data[-1].notes == [said]
    assert parse([node("If", IF, version=2.2, parameters=given)]).warnings == (f"'If': {said}",)


def test_what_only_the_editor_needs_is_known() -> None:
    options = {"options": {"ignoreCase": True, "looseTypeValidation": True}, "looseTypeValidation": True}
    for name in ("if", "filter", "switch"):
        workflow = parse(
            [node("N", f"n8n-nodes-base.{name}", version=2.2 if name != "switch" else 3.2, parameters=options)]
        )
        assert workflow.warnings == ()


@pytest.mark.parametrize(
    "kind, operation, second, values",
    [
        ("string", "equal", "abc", {"abc": True, "ABC": False, 5: False}),
        ("string", "contains", "5", {5: True, None: False}),
        ("string", "isNotEmpty", None, {"a": True, "": False, None: False, 0: True}),
        ("string", "startsWith", "a", {"abc": True, None: FAILS, 5: FAILS}),
        ("number", "larger", 5, {6: True, 5: False, "6": True, "x": False}),
        ("number", "", 5, {4: True, 6: False}),
        ("number", "equal", 5, {5: True, "5": False}),
        ("number", "isEmpty", None, {0: False, None: True}),
        ("boolean", "notEqual", True, {True: False, False: True, None: True}),
        ("string", "sounds", "x", {"x": FAILS}),
    ],
)
def test_the_old_form(kind: str, operation: str, second: Any, values: dict[Any, bool | str]) -> None:
    given = {"value1": "={{ $json.v }}", "operation": operation, "value2": second}
    found: dict[Any, bool | str] = {}
    for value in values:
        done = on_items(IF, 1, {"conditions": {kind: [given]}}, [{"v": value}])
        found[value] = FAILS if done.outcome.error is not None else bool(outputs(done)[0])
    assert found == values


def test_the_old_form_counts_in_any_version_and_may_ask_for_any() -> None:
    old = {"string": [{"value1": "a", "value2": "b"}], "number": [{"value1": 1, "operation": "larger", "value2": 0}]}
    for version in (1, 2.2):
        assert outputs(on_items(IF, version, {"conditions": old}, [{}])) == [[], [{}]]
        given = {"conditions": old, "combineOperation": "any"}
        assert outputs(on_items(IF, version, given, [{}])) == [[{}], []]


@pytest.mark.parametrize(
    "operation, pattern, value, case, expected",
    [
        ("regex", "^ab+$", "abb", True, True),
        ("regex", "^AB", "abb", True, False),
        ("regex", "^AB", "abb", False, True),
        ("regex", "/^AB/i", "abb", True, True),
        ("notRegex", r"\d{2}", "a1", True, True),
        ("regex", r"(?<word>é)\k<word>", "éé", True, True),
        ("regex", "}}", "{{ }}", True, True),
        ("regex", "x", None, True, False),
        ("regex", "(", "x", True, FAILS),
        ("regex", "(a+)+$", "a" * 40 + "b", True, FAILS),
    ],
)
def test_regular_expressions(operation: str, pattern: str, value: Any, case: bool, expected: bool | str) -> None:
    assert holds(value, condition("string", operation, pattern), caseSensitive=case) == expected


@pytest.mark.parametrize(
    "operation, right, value, expected",
    [
        ("after", "2024-05-01", "2024-05-02", True),
        ("before", "2024-05-01T10:00:00Z", "2024-05-01T11:30:00+02:00", True),
        ("equals", "2024-05-01T10:00:00Z", "Wed, 01 May 2024 10:00:00 GMT", True),
        ("notEquals", "2024-05-01", "2024-05-01 00:00", False),
        ("afterOrEquals", "2024-05-01", "May 1 2024", True),
        ("beforeOrEquals", "2024-05-01", None, False),
        ("empty", "", None, True),
        ("after", "2024-05-01", "no date", FAILS),
        ("after", "2024-05-01", {}, FAILS),
    ],
)
def test_dates(operation: str, right: str, value: Any, expected: bool | str) -> None:
    single = {"singleValue": True} if not right else {}
    assert holds(value, condition("dateTime", operation, right, **single)) == expected


def test_dates_and_regular_expressions_of_the_old_form() -> None:
    date = {"dateTime": [{"value1": "={{ $json.v }}", "value2": "2024-05-01"}]}
    assert outputs(on_items(IF, 1, {"conditions": date}, [{"v": "2024-05-02"}, {"v": "2024-04-02"}])) == [
        [{"v": "2024-05-02"}],
        [{"v": "2024-04-02"}],
    ]
    with pytest.raises(NodeFailed, match="is no date and time"):
        outputs(on_items(IF, 1, {"conditions": date}, [{"v": "soon"}]))
    pattern = {"string": [{"value1": "={{ $json.v }}", "operation": "regex", "value2": "/^A/i"}]}
    assert outputs(on_items(IF, 1, {"conditions": pattern}, [{"v": "ab"}, {"v": "b"}, {}])) == [
        [{"v": "ab"}],
        [{"v": "b"}, {}],
    ]
