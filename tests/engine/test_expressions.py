"""Expressions; the values are n8n's."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from convoq.errors import ExpressionFailed
from convoq.expressions import js
from tests.engine.support import INFO, Finished, chain, make, node, run

ITEM: dict[str, Any] = {
    "a": {"b": [{"c": 1}, {"c": None}], "d.e": 2, "first name": "Ada"},
    "t": True,
    "n": 7.5,
    "whole": 7.0,
    "nul": None,
    "s": "héllo",
    "list": [1, [2, None], {"x": 1}],
}


def value(template: Any) -> Any:
    done = run(chain(), ITEM)
    last = done.run.state.last_run("Start")
    assert last is not None
    return asyncio.run(done.run.context("Start", last.outputs[0]).evaluate(template))


@pytest.mark.parametrize(
    "template, expected",
    [
        ("plain {{ query }} text", "plain {{ query }} text"),
        ("=no expression", "no expression"),
        ('==IMAGE("{{ $json.s }}")', '=IMAGE("héllo")'),
        ("={{ $json.a.b[0].c }}", 1),
        ('={{ $json["a"]["d.e"] }}', 2),
        ("={{$json.a['first name']}}", "Ada"),
        ("={{ $json?.a?.b?.[0]?.c }}", 1),
        ("={{ $json . a . b [ 0 ] }}", {"c": 1}),
        ("={{\n$json.a.b[1].c\n}}", None),
        ("={{ $json.t }}", True),
        ("={{ $json.nope }}", None),
        ("={{ $json.nope.deeper[3].still }}", None),
        ("={{ $json.nul.x }}", None),
        ("={{ $json.t.x }}", None),
        ("={{ $json.list.length }}", 3),
        ("={{ $json.list[9] }}", None),
        ("={{ $json.list['0'] }}", 1),
        ("={{ $json.s.length }}", 5),
        ("={{ $json.s[1] }}", "é"),
        ("={{ $input.item.json.s }}", "héllo"),
        ("={{ $input.first().json.t }}", True),
        ("={{ $workflow.id }}/{{ $workflow.name }}", "wf-1/Test"),
        ("={{ $execution.id }}", INFO.id),
        ("={{ $itemIndex }}{{ $runIndex }}", "00"),
        ("={{ 'it\\'s' }}", "it's"),
        ('={{ "\\u00e9\\n" }}', "é\n"),
        ("={{ 42 }}", 42),
        ("={{ -1.5 }}", -1.5),
        ("={{ true }}", True),
        ("={{ null }}", None),
        ("={{ undefined }}", None),
        ("={{ query }}", None),
        ("={{ nope.x }}", None),
        ("= {{ $json.t }}", " true"),
        ("={{ $json.t }}\n", "true\n"),
        ("=[{{ $json.nul }}|{{ $json.nope }}|{{ $json.n }}|{{ $json.whole }}]", "[||7.5|7]"),
        ("=<{{ $json.list }}|{{ $json.a }}>", "<1,2,,[object Object]|[object Object]>"),
        ("=Hi {{ name }}, {{ $json.s }}", "Hi , héllo"),
        ({"k": ["={{ $json.n }}", {"={{ 1 }}": "={{ $json.t }}"}], "n": 3}, {"k": [7.5, {"={{ 1 }}": True}], "n": 3}),
    ],
)
def test_values(template: Any, expected: Any) -> None:
    found = value(template)
    assert found == expected
    assert type(found) is type(expected)


@pytest.mark.parametrize("source", ["$json.", "", "$env.SECRET", "$json.constructor", "$('Nope').first()", "() => 1"])
def test_what_fails_is_quoted(source: str) -> None:
    template = f"={{{{ {source} }}}}"
    with pytest.raises(ExpressionFailed) as caught:
        value(template)
    assert repr(template) in caught.value.message and "'Start'" in caught.value.message
    details = caught.value.details
    assert (details["node"], details["expression"]) == ("Start", template)
    assert caught.value.message.endswith(str(details["reason"]))


def edited(*middle: dict[str, Any], source: str, items: list[dict[str, Any]]) -> Finished:
    field = {"name": "ref", "type": "string", "value": f"={{{{ {source} }}}}"}
    edit = node("S", "n8n-nodes-base.set", version=3.4, parameters={"assignments": {"assignments": [field]}})
    return run(chain(*middle, edit), *items)


THREE = [{"v": 1}, {"v": 2}, {"v": 3}]


@pytest.mark.parametrize(
    "source, expected",
    [
        ("$('Start').item.json.v", ["1", "2", "3"]),
        ('$("A").item.json.v', ["1", "2", "3"]),
        ("$('Start').first().json.v", ["1", "1", "1"]),
        ("$('Start').last().json.v", ["3", "3", "3"]),
        ("$node['A'].json.v", ["1", "2", "3"]),
        ("$node.A.json['v']", ["1", "2", "3"]),
        ("$json.v", ["1", "2", "3"]),
    ],
)
def test_items_of_other_nodes(source: str, expected: list[str]) -> None:
    done = edited(node("A", "pass"), source=source, items=THREE)
    assert [item["ref"] for item in done.outputs("S")[0]] == expected


def test_an_item_is_followed_back_over_the_output_it_took() -> None:
    field = {"name": "ref", "type": "string", "value": "={{ $('Start').item.json.v }}{{ $('If').item.json.v }}"}
    edit = {"version": 3.4, "parameters": {"assignments": {"assignments": [field]}}}
    workflow = make(
        [
            *(node("Start", "start"), node("If", "choose", 200)),
            node("T", "n8n-nodes-base.set", 400, **edit),  # type: ignore[arg-type]
            node("F", "n8n-nodes-base.set", 400, 200, **edit),
        ],
        *("Start > If", "If.0 > T", "If.1 > F"),
    )
    done = run(workflow, *THREE)
    assert [done.outputs("T"), done.outputs("F")] == [[[{"ref": "22"}, {"ref": "33"}]], [[{"ref": "11"}]]]


@pytest.mark.parametrize(
    "middle, source, message",
    [
        ([], "$('Nope').item.json.x", "there is no node 'Nope'"),
        ([], "$('S').first().json.x", "node 'S' has not run"),
        (
            [node("A", "pass"), node("G", "give", parameters={"items": [{"x": 1}, {"x": 2}]})],
            "$('A').item.json.v",
            "which of the 3 items of 'A' belongs to item 0 is not known",
        ),
        (
            [node("A", "pass"), node("G", "give", alwaysOutputData=True)],
            "$('A').item.json.v",
            "item 0 was made of 3 items of 'A'",
        ),
    ],
)
def test_references_that_lead_nowhere(middle: list[dict[str, Any]], source: str, message: str) -> None:
    done = edited(*middle, source=source, items=THREE)
    assert done.outcome.error is not None
    assert done.outcome.error.code == "expression_failed" and message in done.outcome.error.message
    assert done.outcome.error.details["node"] == "S"


@pytest.mark.parametrize(
    "number, text",
    [
        (0, "0"),
        (-0.0, "0"),
        (1e21, "1e+21"),
        (1.5e300, "1.5e+300"),
        (1e-7, "1e-7"),
        (0.000001, "0.000001"),
        (123456789012345680000.0, "123456789012345680000"),
        (2**53 + 1, "9007199254740992"),
        (0.1 + 0.2, "0.30000000000000004"),
        (100.0, "100"),
    ],
)
def test_numbers_are_written_as_javascript_does(number: float, text: str) -> None:
    assert js.number_text(number) == text
