"""JavaScript in expressions; the values, and what fails, are n8n's."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.expressions.support import failure, of, value

ITEM: dict[str, Any] = {"s": "Hello World", "n": 7.5, "a": [3, 1, 2], "o": {"a": 1, "b": {"c": None}}, "nul": None}


@pytest.mark.parametrize(
    "source, expected",
    [
        ("$json.n + 1", 8.5),
        ("$json.zz || 'x'", "x"),
        ("$json.nul ?? 'x'", "x"),
        ("$json.zz.deep.er", None),
        ("$json.zz?.[0]?.b", None),
        ("$json.zz?.b.first()", None),
        ("$json.zz?.first().last()", None),
        ("$json.zz?.['b'].first()", None),
        ("$json?.a.first() + $json?.['a'].first()", 6),
        ("$json.zz.isEmpty() && $json.nul.isEmpty()", True),
        ("$json.s.nope()", None),
        ("nothing()", None),
        ("JSON.parse('{')", None),
        ("(() => { throw new Error('x') })()", None),
        ("$json.n > 3 ? 'big' : 'small'", "big"),
        ("`a${$json.n}b`", "a7.5b"),
        ("$json.a.map((x, i) => ({x, i})).filter(({x}) => x > 1)", [{"x": 3, "i": 0}, {"x": 2, "i": 2}]),
        ("[...$json.a].sort().join('-')", "1-2-3"),
        ("Object.entries($json.o).length", 2),
        ("JSON.stringify($json.o)", '{"a":1,"b":{"c":null}}'),
        ("$json.s.match(/(\\w+) (\\w+)/)[2]", "World"),
        ("(function () { let sum = 0; for (const x of $json.a) sum += x; return sum })()", 6),
        ("(() => { try { null.x } catch (e) { return 'caught' } })()", "caught"),
        ("Math.max(...$json.a)", 3),
        ("typeof $json.zz", "undefined"),
        ("typeof nothing", "undefined"),
        ("{a: 1, b: [2]}", {"a": 1, "b": [2]}),
        ("{}", {}),
        ("$json.s; $json.n", "Hello World"),
        ("/* c */ $json.s // d", "Hello World"),
        ("x = 5", 5),
        ("010", 8),
        ("10n", "10"),
        ("NaN", None),
        ("new Date(0)", "1970-01-01T00:00:00.000Z"),
        ("new Map([[1, 2]])", {}),
        ("(1234.5).toLocaleString('de')", "1.234,5"),
        ("this.anything", None),
        ("Promise", {}),
        ("eval('1')", None),
        ("new Function('return 1')()", None),
        ("fetch('x')", None),
        ("process.env", None),
        ("require('fs')", None),
    ],
)
def test_values(source: str, expected: Any) -> None:
    assert of(source, ITEM) == expected


@pytest.mark.parametrize(
    "source, message",
    [
        ("", "invalid syntax"),
        ("$json.", "invalid syntax"),
        ("let a = 1; a", "invalid syntax"),
        ("if (1) 2", "invalid syntax"),
        ("function f() {}", "invalid syntax"),
        ("'}} ' }}", "invalid syntax"),
        ("import('fs')", r"import\(\) is not allowed"),
        ("(async () => 1)()", "async is not allowed"),
        ("() => 1", r"please add \(\)"),
        ("Symbol('x')", "symbol"),
        ("(a => { a.a = a; return a })({})", "circular"),
        ("$json.s.first()", r'first\(\) is only callable on type "Array"'),
        ("$json.zz.first()", "first can't be used on undefined value"),
        ("$json?.zz.first()", "first can't be used on undefined value"),
        ("$json.o?.b['c'].first()", "first can't be used on null value"),
        ("$env.HOME", "environment"),
    ],
)
def test_what_fails(source: str, message: str) -> None:
    assert re.search(message, failure(source, ITEM))


@pytest.mark.parametrize(
    "template, expected",
    [
        ("=a {{ $json.n }} b", "a 7.5 b"),
        (
            "=[{{ $json.a.map(x => x) }}|{{ $json.zz.y() }}|{{ NaN }}|{{ 1 > 2 }}|{{ -0 }}|{{ {a: 1} }}]",
            "[3,1,2|||false|0|[object Object]]",
        ),
        ("={{ DateTime.fromISO('2026-01-02') }}.", "2026-01-02T00:00:00.000Z."),
        ("={{ 1 + 1 }} ", "2 "),
        ("={{ 1 + 1", 2),
        ("=a \\{{ x }} {{ 1 + 1 }}", "a \\{{ x }} 2"),
        ("={{ 'a\\}}' + 1 }}", "a}}1"),
        ("={{ () => 1 }}!", "() => 1!"),
        (
            {"a": ["={{ 1 + 1 }}", {"b": "={{ $json.s.length + 1 }}"}], "c": "={{ $json.n }}"},
            {"a": [2, {"b": 12}], "c": 7.5},
        ),
    ],
)
def test_templates(template: Any, expected: Any) -> None:
    assert value(template, ITEM) == expected


def test_template_literals_are_printed_as_n8n_does() -> None:
    assert of("`a\nb${1}\n${2}c${3}:\n\tx: ${4}`") == "a\nb 1\n 2c3:\n    x: 4"


def test_what_one_expression_does_to_its_data_the_next_does_not_see() -> None:
    item = {"a": [2, 1]}
    assert value(["={{ $json.a.push(3) }}", "={{ $json.a.length + 0 }}"], item) == [3, 2]
    assert item == {"a": [2, 1]}


def test_halves_of_surrogate_pairs_pass() -> None:
    assert of("$json.s + '!'", {"s": "\ud83d"}) == "\ud83d!"
