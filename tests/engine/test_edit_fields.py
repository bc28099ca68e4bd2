"""Edit Fields; the values are n8n's."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from convoq.errors import InvalidWorkflow, NodeFailed
from tests.engine.support import chain, node, run

ITEM: dict[str, Any] = {"name": "Ada", "n": 7, "o": {"x": 1, "y": {"z": 2}}, "tags": ["a"], "a.b": "flat"}


def edit(version: float, item: dict[str, Any] = ITEM, **parameters: Any) -> dict[str, Any]:
    before = copy.deepcopy(item)
    done = run(chain(node("E", "n8n-nodes-base.set", version=version, parameters=parameters)), item)
    assert item == before, "an input item was changed"
    if done.outcome.error is not None:
        raise done.outcome.error
    return done.outputs("E")[0][0]


def fields(*triples: tuple[str, str, Any]) -> dict[str, Any]:
    return {"assignments": [{"id": "0", "name": name, "type": kind, "value": value} for name, kind, value in triples]}


FAILS = object()


@pytest.mark.parametrize(
    "kind, given, expected",
    [
        *[("string", given, expected) for given, expected in [("", ""), (5, "5"), (True, "true"), (None, None)]],
        ("string", ["abc", 5], '["abc",5]'),
        ("string", {"é": 1}, '{"é":1}'),
        *[("number", given, expected) for given, expected in [("", 0), ("12.5", 12.5), (" 7 ", 7), ("1e3", 1000)]],
        *[("number", given, expected) for given, expected in [(True, 1), (False, 0), ([], 0), ("0x10", 16)]],
        *[("number", given, FAILS) for given in ["abc", "false", {}, {"a": 1}, ["abc", 5], "2024-05-01", "1_000"]],
        *[("boolean", given, True) for given in [True, "true", "TRUE", 1, "1"]],
        *[("boolean", given, False) for given in [False, "False", 0, "0"]],
        *[("boolean", given, FAILS) for given in [" ", "yes", 5, "abc", ["abc"], {"a": 1}]],
        *[("array", given, expected) for given, expected in [("[1,2]", [1, 2]), ([], []), (None, None)]],
        *[("array", given, FAILS) for given in ["", "abc", 5, True, '{"a":1}', {"a": 1}, "null"]],
        *[("object", given, expected) for given, expected in [('{"a":1}', {"a": 1}), ({}, {}), ("null", None)]],
        *[("object", given, FAILS) for given in ["", "abc", 5, "true", "[1]", [1]]],
    ],
)
def test_conversions(kind: str, given: Any, expected: Any) -> None:
    parameters = {"assignments": fields(("out", kind, "={{ $json.v }}"))}
    if expected is not FAILS:
        found = edit(3.4, {"v": given}, **parameters)["out"]
        assert found == expected and type(found) is type(expected)
        return
    with pytest.raises(Exception, match=f"item 0: field 'out' should be of type {kind}"):
        edit(3.4, {"v": given}, **parameters)
    lenient = edit(3.4, {"v": given}, options={"ignoreConversionErrors": True}, **parameters)
    assert lenient == {"out": given}


@pytest.mark.parametrize(
    "parameters, expected",
    [
        ({}, {}),
        ({"includeOtherFields": True}, ITEM),
        (
            {"assignments": fields(("a", "string", "1"), ("a", "string", "2"), ("a.c", "string", "3"))},
            {"a": {"c": "3"}},
        ),
        ({"assignments": fields(("a.b", "string", "1")), "options": {"dotNotation": False}}, {"a.b": "1"}),
        ({"assignments": fields(("l[1].k", "number", 5))}, {"l": [None, {"k": 5}]}),
        ({"assignments": fields(("=k_{{ $json.name }}", "string", "v"))}, {"k_Ada": "v"}),
        ({"assignments": fields(("__proto__.x", "string", "1"), ("constructor", "string", "2"))}, {}),
        (
            {"includeOtherFields": True, "assignments": fields(("o.x", "number", 99), ("a.b", "string", "new"))},
            {**ITEM, "o": {"x": 99, "y": {"z": 2}}, "a.b": "new"},
        ),
        (
            {"includeOtherFields": True, "include": "selected", "includeFields": "name, o.y, nope"},
            {"name": "Ada", "y": {"z": 2}},
        ),
        (
            {"includeOtherFields": True, "include": "except", "excludeFields": "name,tags,o.y,nope.x"},
            {"n": 7, "o": {"x": 1}, "a.b": "flat"},
        ),
        ({"mode": "raw", "jsonOutput": '{"w": 1, "k.v": 2}'}, {"w": 1, "k": {"v": 2}}),
        ({"mode": "raw", "jsonOutput": '={"w": "{{ $json.name }}\n"}'}, {"w": "Ada\n"}),
        ({"mode": "raw", "jsonOutput": "={{ $json.o }}"}, {"x": 1, "y": {"z": 2}}),
        ({"mode": "raw", "jsonOutput": '{"name": "raw"}', "includeOtherFields": True}, {**ITEM, "name": "raw"}),
    ],
)
def test_from_version_3_3(parameters: dict[str, Any], expected: dict[str, Any]) -> None:
    assert edit(3.3, **parameters) == expected
    assert edit(3.4, **parameters) == expected


OLD = {
    "values": [
        {"name": "a", "stringValue": "={{ $json.name }}!"},
        {"name": "n", "type": "numberValue", "numberValue": "12"},
        {"name": "b", "type": "booleanValue", "booleanValue": "false"},
        {"name": "o.q", "type": "objectValue", "objectValue": '{"k":1}'},
    ]
}
NEW = {"a": "Ada!", "n": 12, "b": False}


@pytest.mark.parametrize("version", [3, 3.1, 3.2])
def test_before_version_3_3(version: float) -> None:
    everything = {**ITEM, **NEW, "o": {**ITEM["o"], "q": {"k": 1}}}
    assert edit(version, fields=OLD) == everything
    assert edit(version, fields=OLD, include="none") == {**NEW, "o": {"q": {"k": 1}}}
    assert edit(version, mode="raw", jsonOutput='{"w":1}') == {**ITEM, "w": 1}


@pytest.mark.parametrize("text", ["", "[1]", "{", "5"])
def test_json_that_is_no_object_is_a_fault_of_the_file(text: str) -> None:
    with pytest.raises(InvalidWorkflow, match="'E' parameter 'jsonOutput'"):
        edit(3.4, mode="raw", jsonOutput=text)


def test_json_that_turns_out_to_be_no_object_fails() -> None:
    with pytest.raises(Exception, match="jsonOutput"):
        edit(3.4, mode="raw", jsonOutput="={{ $json.name }}")


OLDEST = {
    "string": [
        {"name": "u.v", "value": "={{ $json.name }}!"},
        {"name": "o2", "value": "={{ $json.o }}"},
        {"name": "e"},
    ],
    "number": [{"name": "m", "value": "={{ $json.s }}"}, {"name": "bad", "value": "={{ $json.name }}"}],
    "boolean": [{"name": "t", "value": "={{ $json.n }}"}, {"name": "f"}],
}


@pytest.mark.parametrize("version, number", [(1, "12"), (2, 12)])
def test_the_first_two_versions(version: float, number: Any) -> None:
    item = {"name": "Ada", "n": 7, "s": "12", "o": {"x": 1}}
    new = {"t": True, "f": False, "m": number, "bad": "Ada", "u": {"v": "Ada!"}, "o2": {"x": 1}, "e": ""}
    assert edit(version, item, values=OLDEST, keepOnlySet=True) == new
    assert edit(version, item, values=OLDEST) == {**item, **new}
    flat = edit(version, item, values=OLDEST, keepOnlySet=True, options={"dotNotation": False})
    assert flat["u.v"] == "Ada!"
    assert edit(version, item) == item


@pytest.mark.parametrize(
    "written, expected",
    [
        ('={"t": "{{ $json.t }}"}', {"t": 'a "quoted"\nword'}),
        ('={"o": {{ $json.o }}, "l": {{ $json.l }}, "n": {{ $json.nothing }}}', {"o": {"x": 1}, "l": [1], "n": None}),
        ("={{ $json.o }}\n", {"x": 1}),
        ("={{ $json.o }}", {"x": 1}),
        ('={{ "{\\"a\\": 1}" }}', {"a": 1}),
        ({"a": "={{ $json.o.x }}"}, {"a": 1}),
        (None, {}),
    ],
)
def test_json_with_expressions_in_it(written: Any, expected: dict[str, Any]) -> None:
    item = {"t": 'a "quoted"\nword', "o": {"x": 1}, "l": [1]}
    assert edit(3.4, item, mode="raw", jsonOutput=written) == expected


@pytest.mark.parametrize("written", ['={"t": {{ $json.t }}}', "={{ [1] }}", "={{ 5 }}", '={"t": '])
def test_json_with_expressions_that_is_none(written: str) -> None:
    with pytest.raises(NodeFailed, match=r"item 0: jsonOutput: (not JSON|should be a JSON object)"):
        edit(3.4, {"t": "oops"}, mode="raw", jsonOutput=written)
