"""What an expression sees of its run."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import pytest

from convoq.expressions.evaluate import evaluate, evaluate_given
from tests.expressions.support import failure, of, value, view

NODES: dict[str, Any] = {"A": [{"x": 1}, {"x": 2}], "It's": [{"x": 3}], "Later": None}
ITEMS = ({"v": "a"}, {"v": "b"})


@pytest.mark.parametrize(
    "source, expected",
    [
        ("$input.item.json.v + '!'", "b!"),
        ("$input.first().json.v + $input.last().json.v", "ab"),
        ("$input.all().map(i => i.json.v)", ["a", "b"]),
        ("$items().length", 2),
        ("$items('A')[0].json.x", 1),
        ("$item(0).$json.v", "a"),
        ("$item(0).$node['A'].json.x + 0", 1),
        ("$('A').item.json.x + 0", 2),
        ("$(`A`).item.json.x", 2),
        ("$('A').first().json.x + $('A').last().json.x", 3),
        ("$('A').all().length", 2),
        ("$('A').all()[0]", {"json": {"x": 1}, "pairedItem": {"item": 0}}),
        ("$('A').itemMatching(0).json.x + 0", 1),
        ("$('A').params.of", "A"),
        ("$('A').isExecuted", True),
        ("$('Later').isExecuted", False),
        ("$('Later').isExecuted ? $('Later').first().json.x : 'none'", "none"),
        ('$("It\'s").first().json.x + 0', 3),
        ("$node['A'].json.x + 0", 2),
        ("$node.A.json.x", 2),
        ("$node.A.runIndex - $node.Later.runIndex", 1),
        ("(name => $(name).first().json.x)('A')", 1),
        ("$binary", {}),
        ("$input.item.binary", None),
        ("$node.A.binary", {}),
        ("$('A')", {}),
        ("$itemIndex + $runIndex", 1),
        ("$prevNode", {"name": "Before", "outputIndex": 1, "runIndex": 2}),
        ("$workflow", {"id": "wf-1", "name": "Test", "active": True}),
        ("$execution.id + $execution.mode", "exec-1test"),
        ("$parameter.of", None),
        ("$vars.team", "blue"),
        ("$env.HOME", "/home/x"),
        ("$now.zoneName + $today.toFormat('HHmm')", "Europe/Berlin0000"),
        ("DateTime.fromISO('2026-07-01').toISO()", "2026-07-01T00:00:00.000+02:00"),
        ("$fromAI('city', 'which city', 'string')", "Paris"),
        ("$fromAI('other', '', 'number', 5)", 5),
        ("$response.body.next", "/2"),
        ("pageCount", 3),
        ("$if($json.v == 'b', 1, 2)", 1),
        ("$ifEmpty($json.zz, 'd')", "d"),
        ("$min(3, 1) + $max(3, 1)", 4),
        ("$jmespath({a: [{b: 1}, {b: 2}]}, 'a[?b > `1`].b')", [2]),
        ("Duration.fromObject({hours: 1}).as('minutes')", 60),
        ("Interval.fromISO('2026-01-01/2026-01-03').length('days')", 2),
    ],
)
def test_names(source: str, expected: Any) -> None:
    found = of(
        source,
        *ITEMS,
        nodes=NODES,
        item_index=1,
        timezone="Europe/Berlin",
        variables={"team": "blue"},
        environment={"HOME": "/home/x"},
        from_ai={"city": "Paris"},
        extra={"$response": {"body": {"next": "/2"}}, "pageCount": 3},
    )
    assert found == expected


@pytest.mark.parametrize(
    "source, message",
    [
        ("$('Nope').first().json.x + 1", "there is no node 'Nope'"),
        ("$('Later').first().json.x + 1", "node 'Later' has not run"),
        ("$node['It\\'s'].json.x + 1", "has no item 1"),
        ("$input.first(1)", "takes no arguments"),
        ("$fromAI('a b')", r"\$fromAI\(\) needs a key"),
        ("$env.HOME + 1", "environment variables is not allowed"),
    ],
)
def test_what_leads_nowhere(source: str, message: str) -> None:
    assert re.search(message, failure(source, *ITEMS, nodes=NODES, item_index=1))


def test_only_what_is_looked_at_is_handed_over() -> None:
    scope = view(*ITEMS, nodes=NODES)
    assert asyncio.run(evaluate("={{ $json.v == 'b' ? $(`A`).first().json.x : $(`It's`).first().json.x }}", scope)) == 3
    assert set(scope.asked) == {"It's"}


def test_a_failure_that_the_expression_catches_is_none() -> None:
    source = "(() => { try { return $('Nope').first() } catch (e) { return 'no such node' } })()"
    assert of(source) == "no such node"


def test_keys_that_come_to_nothing_are_not_given() -> None:
    template = {"a": "={{ $json.zz.y() }}", "b": "={{ $json.zz }}", "c": None, "d": ["={{ [].zz + [] && null }}"]}
    assert asyncio.run(evaluate_given(template, view())) == {"c": None, "d": [None]}
    assert value(template) == {"a": None, "b": None, "c": None, "d": [None]}
