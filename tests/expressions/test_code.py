"""Code nodes' JavaScript; what comes out, and what fails, are n8n's."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from typing import Any

import pytest

from convoq.contract.items import PairedItem
from convoq.errors import CodeFailed
from convoq.expressions.code import Ran, run_for_all, run_for_each, run_for_value
from convoq.expressions.process import Limits
from convoq.expressions.sandbox import Sandbox
from tests.expressions.support import view

ITEMS = ({"a": 1}, {"a": 2})
NODES = {"A": [{"x": 1}, {"x": 2}], "Later": None}


def run_all(source: str, **others: Any) -> Ran:
    return asyncio.run(run_for_all(source, view(*ITEMS, nodes=NODES, **others)))


def run_each(source: str, *, go_on: bool = False) -> Ran:
    return asyncio.run(run_for_each(source, view(*ITEMS, nodes=NODES), go_on=go_on))


@pytest.mark.parametrize(
    "source, expected",
    [
        ("return items", [{"a": 1}, {"a": 2}]),
        ("return [{x: 1}, {x: 2}]", [{"x": 1}, {"x": 2}]),
        ("return {x: 1}", [{"x": 1}]),
        ("return {json: {x: 1}}", [{"x": 1}]),
        ("return null", []),
        ("return []", []),
        ("for (const item of $input.all()) item.json.b = 1\nreturn items", [{"a": 1, "b": 1}, {"a": 2, "b": 1}]),
        ("return {v: $json.a, w: $input.item.json.a, f: $input.first().json.a}", [{"v": 1, "w": 1, "f": 1}]),
        ("const items = $input.all(); return items.length ? {n: items.length} : []", [{"n": 2}]),
        ("return {x: $('A').all().length + $('A').item.json.x + $node['A'].json.x}", [{"x": 4}]),
        ("return {x: $items('A')[1].json.x, ran: $('Later').isExecuted}", [{"x": 2, "ran": False}]),
        ("return {x: await new Promise(done => setTimeout(done, 0, 7))}", [{"x": 7}]),
        (
            "return {d: new Date(0), n: 10n, u: undefined, i: 1 / 0}",
            [{"d": "1970-01-01T00:00:00.000Z", "n": "10", "i": None}],
        ),
        (
            "return {b: Buffer.from('aGk=', 'base64').toString(), h: Buffer.from('é').toString('hex')}",
            [{"b": "hi", "h": "c3a9"}],
        ),
        (
            "return {x: btoa('x'), y: atob('eA=='), z: new TextDecoder().decode(new TextEncoder().encode('é'))}",
            [{"x": "eA==", "y": "x", "z": "é"}],
        ),
        (
            "return {t: typeof ''.toTitleCase, f: typeof fetch, p: typeof process}",
            [{"t": "undefined", "f": "undefined", "p": "undefined"}],
        ),
        ("return {x: $jmespath({a: [1, 2]}, 'a[1]'), d: DateTime.fromISO('2026-01-02').year}", [{"x": 2, "d": 2026}]),
        ("return {y: $now.isValid, m: $execution.mode, w: $workflow.name}", [{"y": True, "m": "test", "w": "Test"}]),
        ("eval('var a = 3'); return {a}", [{"a": 3}]),
    ],
)
def test_once_for_all_items(source: str, expected: Any) -> None:
    assert [made.json for made in run_all(source).items] == expected


@pytest.mark.parametrize(
    "source, message",
    [
        ("return 'text'", "Code doesn't return items properly"),
        ("const x = 1", "Code doesn't return items properly"),
        ("return [1]", "Code doesn't return items properly"),
        ("return [[{json: {}}]]", "Code doesn't return items properly"),
        ("return [{json: {}}, {y: 2}]", r"Unknown top-level item key: y \[item 1\]"),
        ("return [{json: 'x'}]", r"A 'json' property isn't an object \[item 0\]"),
        ("throw new Error('boom')", r"^boom \[line 1\]$"),
        ("\n\nfunction f() {\n  throw new TypeError('deep') }\nf()", r"^deep \[line 4\]$"),
        ("throw 'boom'", '"boom"'),
        ("null.x", r"\[line 1\]$"),
        ("const = 1", "Unexpected token"),
        ("const o = {}; o.o = o; return o", "circular"),
        ("require('fs')", r"Module 'fs' is disallowed \[line 1\]"),
        ("$env.HOME", "environment"),
        ("$('Later').first()", "'Later' has not run"),
        ("return this.helpers.httpRequest({})", "helpers.httpRequest is not available"),
    ],
)
def test_what_fails(source: str, message: str) -> None:
    with pytest.raises(CodeFailed, match=message):
        run_all(source)


def test_once_for_each_item() -> None:
    assert [made.json for made in run_each("return {b: $json.a + $('A').item.json.x, i: $itemIndex}").results] == [  # type: ignore[union-attr]
        {"b": 2, "i": 0},
        {"b": 4, "i": 1},
    ]
    first, second = run_each("if ($json.a === 1) return null; item.json.z = 1; return item").results
    assert first is None and second is not None and not isinstance(second, CodeFailed)
    assert second.json == {"a": 2, "z": 1} and second.paired_item == PairedItem(1)


@pytest.mark.parametrize("go_on, count", [(False, 1), (True, 2)])
def test_an_item_that_fails(go_on: bool, count: int) -> None:
    results = run_each("if ($json.a === 1) throw new Error('no ' + $itemIndex); return {}", go_on=go_on).results
    assert len(results) == count
    assert isinstance(results[0], CodeFailed) and results[0].message == "no 0 [line 1]"


@pytest.mark.parametrize("source", ["return $input.all()", "return {n: items.length}", "return [{}]", "return 5"])
def test_what_is_not_for_each_item(source: str) -> None:
    assert isinstance(run_each(source).results[0], CodeFailed)


def test_a_value_and_names_from_outside() -> None:
    scope = view(extra={"query": {"city": "Paris"}})
    assert asyncio.run(run_for_value("return 'in ' + query.city", scope)).value == "in Paris"


def test_what_is_paired_and_what_is_binary_is_told() -> None:
    source = "return [{json: {}, pairedItem: [{item: 0}, 1]}, {json: {}, binary: {f: {data: 'aGk='}}, error: 'bad'}]"
    first, second = run_all(source).items
    assert first.paired_item == [PairedItem(0), PairedItem(1)]
    assert second.binary == {"f": {"data": "aGk="}} and second.error == "bad"


def test_what_is_printed_is_bounded() -> None:
    ran = run_all("console.log('a', {b: 1}); for (let i = 0; i < 1000; i++) console.warn('x'.repeat(9999)); return []")
    assert ran.log[0] == 'a {"b":1}' and len(ran.log) == 100 and max(map(len, ran.log)) == 2000


def test_static_data_is_kept_even_where_the_code_fails() -> None:
    stored: dict[str, Any] = {}
    source = "const kept = $getWorkflowStaticData('global'); kept.n = (kept.n ?? 0) + 1; throw new Error('no')"
    for _ in range(2):
        with pytest.raises(CodeFailed):
            asyncio.run(run_for_all(source, view(), stored))
    assert stored == {"global": {"n": 2}}


@pytest.fixture(scope="module")
def small() -> Iterator[Sandbox]:
    made = Sandbox(code=Limits(timeout_s=0.5, memory_bytes=64 << 20, answer_bytes=1 << 20))
    yield made
    asyncio.run(made.close())


@pytest.mark.parametrize(
    "source, message",
    [
        ("for (;;);", "took longer than 0.5 s"),
        ("await new Promise(() => {})", "took longer than 0.5 s"),
        ("(function f() { f() })()", "call stack"),
        ("(async function f() { for (;;) await null })(); await new Promise(() => {})", "took longer than 0.5 s"),
        ("const all = []; for (;;) all.push(new Promise(() => {}))", "more than 64 MB of memory|took longer"),
        ("await Promise.all(Array.from({length: 1e8}, async () => 1))", "more than 64 MB of memory|took longer"),
        ("return {x: 'x'.repeat(2 ** 22)}", "more than 1048576"),
        ("const all = []; for (;;) all.push(new Uint8Array(1e7).fill(1))", "memory|allocation failed"),
        ("/^(a+)+$/.test('a'.repeat(60) + 'b')", "took longer than 0.5 s"),
        ('JSON.stringify = () => \'{"items": [{"json": 5}]}\'; return []', "not of the right form"),
        ('JSON.stringify = () => \'{"missing": ["[[["]}\'; return []', "Code doesn't|same data again|returns"),
        ("(async () => { for (;;) await null })(); return []", "took longer than 0.5 s"),
    ],
)
def test_hostile_code_ends_within_its_limit(small: Sandbox, source: str, message: str) -> None:
    started = time.monotonic()
    with pytest.raises(CodeFailed, match=message):
        run_all(source, sandbox=small)
    assert time.monotonic() - started < 30
    assert run_all("return {a: 1}", sandbox=small).items[0].json == {"a": 1}


@pytest.mark.parametrize(
    "source",
    [
        "Object.prototype.left = 'secret'; Array.prototype.left = 'secret'; globalThis.left = 'secret'; return []",
        "'secret'.match(/(.*)/); left = 'secret'; return []",
        "setInterval(() => { globalThis.left = 'secret' }, 0); return []",
    ],
)
def test_no_run_sees_what_another_left(small: Sandbox, source: str) -> None:
    assert run_all(source, sandbox=small).items == []
    found = run_all("return {g: typeof left, o: typeof ({}).left, r: RegExp.$1}", sandbox=small).items
    assert found[0].json == {"g": "undefined", "o": "undefined", "r": ""}
