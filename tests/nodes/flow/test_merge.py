"""Merge; the values are n8n's."""

from __future__ import annotations

import time
from typing import Any

import pytest

from convoq.errors import BadParameter, NodeFailed
from convoq.nodes.flow import merge_sql
from tests.engine.support import node, run
from tests.nodes.running import on_items, outputs, pairs, parse

MERGE = "n8n-nodes-base.merge"
ONE: list[dict[str, Any]] = [{"id": 1, "a": "x", "o": {"p": 1}}, {"id": 2, "a": "y"}, {"id": 1, "a": "z"}]
TWO: list[dict[str, Any]] = [{"id": 1, "a": "B", "o": {"q": 2}}, {"id": 3, "b": "C"}, {"id": 1, "b": "D"}]
ON_ID = {"combineBy": "combineByFields", "fieldsToMatchString": "id"}


def merged(parameters: dict[str, Any], *inputs: list[dict[str, Any]], version: float = 3.2) -> list[dict[str, Any]]:
    return outputs(on_items(MERGE, version, parameters, *(inputs or (ONE, TWO))))[0]


def combined(parameters: dict[str, Any], *, version: float = 3.2) -> list[dict[str, Any]]:
    return merged({"mode": "combine", **parameters}, version=version)


def test_append_and_which_input_each_came_from() -> None:
    done = on_items(MERGE, 3.1, {"numberInputs": 3}, [{"a": 1}], [{"b": 1}, {"b": 2}], [{"c": 1}])
    assert outputs(done) == [[{"a": 1}, {"b": 1}, {"b": 2}, {"c": 1}]]
    assert pairs(done) == [[(0, 0)], [(0, 1)], [(1, 1)], [(0, 2)]]
    assert merged({}, [], TWO) == TWO


def test_by_position() -> None:
    done = on_items(MERGE, 3, {"mode": "combine", "combineBy": "combineByPosition"}, ONE, TWO[:1])
    assert outputs(done) == [[{"id": 1, "a": "B", "o": {"p": 1, "q": 2}}]]
    assert pairs(done) == [[(0, 0), (0, 1)]]
    by_position: dict[str, Any] = {"combineBy": "combineByPosition"}
    assert combined({**by_position, "options": {"includeUnpaired": True}})[2] == {"id": 1, "a": "z", "b": "D"}
    first = {"clashHandling": {"values": {"resolveClash": "preferInput1"}}}
    assert combined({**by_position, "options": first})[0] == {"id": 1, "a": "x", "o": {"p": 1, "q": 2}}
    shallow = {"clashHandling": {"values": {"resolveClash": "preferLast", "mergeMode": "shallowMerge"}}}
    assert combined({**by_position, "options": shallow})[0]["o"] == {"q": 2}
    assert combined({"combinationMode": "mergeByPosition"}, version=2.1)[1] == {"id": 3, "a": "y", "b": "C"}


def test_clashes_may_get_a_suffix_and_nothing_empty_need_win() -> None:
    suffix = {"clashHandling": {"values": {"resolveClash": "addSuffix"}}}
    given = {"mode": "combine", "combineBy": "combineAll", "options": suffix}
    assert merged(given, [{"a": 1}], [{"a": 2}]) == [{"a_1": 1, "a_2": 2}]
    kept = {"clashHandling": {"values": {"resolveClash": "preferLast", "overrideEmpty": True}}}
    given = {"mode": "combine", "combineBy": "combineAll", "options": kept}
    assert merged(given, [{"a": 1, "b": {"c": 1}}], [{"a": None, "b": {"c": ""}, "d": ""}]) == [
        {"a": 1, "b": {"c": 1}, "d": ""}
    ]


def test_arrays_go_into_each_other_and_the_items_that_came_in_stay() -> None:
    one, two = [{"l": [{"x": 1}, 2, 3]}], [{"l": [{"y": 1}, 5]}]
    given = {"mode": "combine", "combineBy": "combineAll"}
    assert merged(given, one, two) == [{"l": [{"x": 1, "y": 1}, 5, 3]}]
    assert (one, two) == ([{"l": [{"x": 1}, 2, 3]}], [{"l": [{"y": 1}, 5]}])


def test_every_one_with_every_other() -> None:
    found = combined({"combineBy": "combineAll"})
    assert [(item["id"], item["a"]) for item in found[:4]] == [(1, "B"), (3, "x"), (1, "x"), (1, "B")] and len(
        found
    ) == 9
    assert merged({"mode": "combine", "combineBy": "combineAll"}, ONE, []) == []


@pytest.mark.parametrize(
    "join, expected",
    [
        ({}, [(1, "B"), (1, "x"), (1, "B"), (1, "z")]),
        ({"joinMode": "enrichInput1"}, [(1, "B"), (1, "x"), (1, "B"), (1, "z"), (2, "y")]),
        ({"joinMode": "enrichInput2"}, [(1, "x"), (1, "x"), (1, "z"), (1, "z"), (3, None)]),
        ({"joinMode": "keepEverything"}, [(1, "B"), (1, "x"), (1, "B"), (1, "z"), (2, "y"), (3, None)]),
        ({"joinMode": "keepNonMatches"}, [(2, "y"), (3, None)]),
        ({"joinMode": "keepNonMatches", "outputDataFrom": "input2"}, [(3, None)]),
        ({"outputDataFrom": "input1"}, [(1, "x"), (1, "z")]),
        ({"outputDataFrom": "input2"}, [(1, "B"), (1, None)]),
        ({"options": {"multipleMatches": "first"}}, [(1, "B"), (1, "B")]),
    ],
)
def test_by_fields(join: dict[str, Any], expected: list[tuple[int, str | None]]) -> None:
    assert [(item["id"], item.get("a")) for item in combined({**ON_ID, **join})] == expected
    if "multipleMatches" not in str(join):
        named = {"mergeByFields": {"values": [{"field1": "id", "field2": "id"}]}}
        assert [(item["id"], item.get("a")) for item in combined({**named, **join}, version=2.1)] == expected


def test_those_that_match_nothing_say_where_they_come_from() -> None:
    assert [item["_source"] for item in combined({**ON_ID, "joinMode": "keepNonMatches"})] == ["input1", "input2"]


@pytest.mark.parametrize(
    "options, fields, matches",
    [({}, "id", 0), ({"fuzzyCompare": True}, "id", 1), ({}, "u.n", 1), ({"disableDotNotation": True}, "u.n", 0)],
)
def test_how_alike_fields_have_to_be(options: dict[str, Any], fields: str, matches: int) -> None:
    given = {"mode": "combine", "fieldsToMatchString": fields, "options": options}
    assert len(merged(given, [{"id": 1, "u": {"n": [1]}}], [{"id": "1", "u": {"n": [1]}}])) == matches


def test_a_field_that_is_missing_matches_nothing() -> None:
    assert merged({"mode": "combine", "fieldsToMatchString": "id"}, [{"x": 1}], [{"x": 1}]) == []


@pytest.mark.parametrize("given", [{"fieldsToMatchString": " , "}, {"advanced": True}])
def test_without_fields_to_match_it_fails(given: dict[str, Any]) -> None:
    with pytest.raises(BadParameter, match="name at least one pair"):
        combined(given)
    half = {"advanced": True, "mergeByFields": {"values": [{"field1": "id"}]}}
    with pytest.raises(BadParameter, match="pair 1 needs a field of each input"):
        combined(half)


def test_one_branch_is_chosen() -> None:
    assert merged({"mode": "chooseBranch"}) == ONE
    assert merged({"mode": "chooseBranch", "useDataOfInput": "2"}) == TWO
    assert merged({"mode": "chooseBranch", "output": "input2"}, version=2.1) == TWO
    assert merged({"mode": "chooseBranch", "output": "empty"}) == [{}]


def test_only_a_choice_waits_in_vain() -> None:
    nodes = [
        node("Start", "start"),
        node("If", "choose", 200),
        node("A", "pass", 400),
        node("B", "pass", 400, 200),
    ]
    links = ("Start > If", "If.0 > A", "If.1 > B", "A > M.0", "B > M.1", "M > Z")
    for mode, ran in (("append", ["M", "Z"]), ("chooseBranch", [])):
        merge = node("M", MERGE, 600, version=3.2, parameters={"mode": mode})
        done = run(parse([*nodes, merge, node("Z", "pass", 800)], *links), {"v": 1})
        assert done.order == ["Start", "If", "B", *ran]


@pytest.mark.parametrize(
    "parameters, expected",
    [
        ({}, [*ONE, *TWO]),
        ({"mode": "passThrough"}, ONE),
        ({"mode": "passThrough", "output": "input2"}, TWO),
        ({"mode": "wait"}, [{}]),
        ({"mode": "multiplex"}, 9),
        ({"mode": "mergeByIndex"}, [TWO[0], {"id": 3, "a": "y", "b": "C"}, {"id": 1, "a": "z", "b": "D"}]),
        ({"mode": "mergeByKey"}, [TWO[0], ONE[1], TWO[0]]),
        ({"mode": "mergeByKey", "overwrite": "undefined"}, [ONE[0], ONE[1], {**TWO[0], **ONE[2]}]),
        ({"mode": "keepKeyMatches"}, [ONE[0], ONE[2]]),
        ({"mode": "removeKeyMatches"}, [ONE[1]]),
    ],
)
def test_the_first_version(parameters: dict[str, Any], expected: list[dict[str, Any]] | int) -> None:
    found = merged({"propertyName1": "id", "propertyName2": "id", **parameters}, version=1)
    assert (len(found) if isinstance(expected, int) else found) == expected


@pytest.mark.parametrize("join, count", [("inner", 1), ("left", 3), ("outer", 3)])
def test_joins_of_the_first_version(join: str, count: int) -> None:
    assert len(merged({"mode": "mergeByIndex", "join": join}, ONE, TWO[:1], version=1)) == count
    filled = merged(
        {"mode": "mergeByKey", "propertyName1": "i", "propertyName2": "k", "overwrite": "blank"},
        [{"i": 1, "a": "", "b": 1}],
        [{"k": "1", "a": 2, "b": 2}],
        version=1,
    )
    assert filled == [{"i": 1, "a": 2, "b": 1}]


ROWS: tuple[list[dict[str, Any]], ...] = (
    [{"id": 1, "ok": True, "o": {"p": [1]}}, {"id": 2, "ok": False, "n": 2.5}],
    [{"id": 1, "b": "é"}],
)


@pytest.mark.parametrize(
    "query, expected",
    [
        ("SELECT * FROM input1", ROWS[0]),
        ("select input1.id, b from input1 left join input2 on input1.id = input2.id", [{"id": 1, "b": "é"}, {"id": 2}]),
        ("SELECT id FROM input1 WHERE ok = true;", [{"id": 1}]),
        ("SELECT count(*) AS n, sum(n) AS s FROM input1", [{"n": 2, "s": 2.5}]),
        (
            "SELECT ROW_NUMBER() AS row, input1.id FROM input1 ORDER BY id DESC",
            [{"row": 2, "id": 2}, {"row": 1, "id": 1}],
        ),
        ("SELECT id FROM input1 UNION ALL SELECT id FROM input2", [{"id": 1}, {"id": 2}, {"id": 1}]),
        ("SELECT DISTINCT id > 0 AS yes FROM input1", [{"yes": 1}]),
        ("SELECT id FROM input1 WHERE id > 5", []),
        ("SELECT id FROM input1 WHERE id = {{ $json.id }}", [{"id": 1}]),
    ],
)
def test_by_sql(query: str, expected: list[dict[str, Any]]) -> None:
    assert merged({"mode": "combineBySql", "query": query}, *ROWS) == expected


def test_rows_of_a_query_know_what_they_were_made_of() -> None:
    query = "SELECT input1.id, input2.b FROM input1 LEFT JOIN input2 ON input1.id = input2.id"
    assert pairs(on_items(MERGE, 3.2, {"mode": "combineBySql", "query": query}, *ROWS)) == [[(0, 0), (0, 1)], [(1, 0)]]
    query = "SELECT count(*) AS n FROM (SELECT id FROM input1)"
    found = pairs(on_items(MERGE, 3.2, {"mode": "combineBySql", "query": query}, *ROWS))
    assert found == [[(0, 0), (1, 0), (0, 1)]]


def test_no_rows_may_give_an_item_that_says_so() -> None:
    query = {"mode": "combineBySql", "query": "SELECT id FROM input1 WHERE 0"}
    assert merged(query, *ROWS, version=3.1) == [{"success": True}]
    assert merged({**query, "options": {"emptyQueryResult": "success"}}, *ROWS) == [{"success": True}]


@pytest.mark.parametrize(
    "query",
    [
        "ATTACH DATABASE '/tmp/convoq-stolen.db' AS other",
        "PRAGMA database_list",
        "DELETE FROM input1",
        "SELECT load_extension('x') FROM input1",
        "SELECT * FROM sqlite_master; DROP TABLE input1",
        "SELECT length(zeroblob(100000000)) FROM input1",
        "SELEC id",
    ],
)
def test_sql_may_only_read(query: str) -> None:
    with pytest.raises(NodeFailed, match="query"):
        merged({"mode": "combineBySql", "query": query}, *ROWS)


def test_sql_that_never_ends_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merge_sql, "TIME_LIMIT_S", 0.2)
    began = time.monotonic()
    endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT sum(i) FROM n"
    with pytest.raises(NodeFailed, match="interrupted"):
        merged({"mode": "combineBySql", "query": endless}, *ROWS)
    assert time.monotonic() - began < 30
    monkeypatch.setattr(merge_sql, "MAX_ROWS", 10)
    many = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 11) SELECT i FROM n"
    with pytest.raises(NodeFailed, match="more than 10 rows"):
        merged({"mode": "combineBySql", "query": many}, *ROWS)
