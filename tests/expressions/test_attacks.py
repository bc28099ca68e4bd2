"""Hostile expressions: each ends in a clear error or in nothing, within its limit, and the next one is served."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from convoq.expressions.process import Limits
from convoq.expressions.sandbox import Sandbox
from tests.expressions.support import failure, of

LIMITS = Limits(timeout_s=0.5, memory_bytes=64 << 20, answer_bytes=1 << 20)
ENOUGH_S = 30.0
"""Well over what the limits let pass, on a busy machine, too."""


@pytest.fixture(scope="module")
def small() -> Iterator[Sandbox]:
    made = Sandbox(LIMITS)
    yield made
    asyncio.run(made.close())


@pytest.mark.parametrize(
    "source, message",
    [
        ("(() => { for (;;); })()", "took longer than 0.5 s"),
        ("/^(a+)+$/.test('a'.repeat(60) + 'b')", "took longer than 0.5 s"),
        ("(function f() { return f() })()", "call stack"),
        ("(f => f(f))(f => f(f) + 1)", "call stack"),
        ("'x'.repeat(2 ** 29 - 24).split('').length", "more than 64 MB of memory"),
        ("'x'.repeat(2 ** 30)", "string length"),
        ("'x'.repeat(2 ** 22)", "more than 1048576"),
        ("new Array(1e9).fill(0)", "more than 64 MB of memory|took longer"),
        ("(() => { const all = []; for (;;) all.push({a: [1, 2, 3]}) })()", "more than 64 MB of memory|took longer"),
        ("(() => { const all = []; for (;;) all.push(new Uint8Array(1e7).fill(1)) })()", "memory|allocation failed"),
        ("(() => { const all = new Map(); for (let i = 0; ; i++) all.set(i, i) })()", "memory|took longer|more than"),
        ("JSON.stringify('x'.repeat(3e8))", "memory|string length"),
        ("[1, 2, 3].chunk(-1)", "chunk"),
        ("(async function f() { for (;;) await f() })()", "async is not allowed"),
        ("({ toJSON() { for (;;); } })", "took longer than 0.5 s"),
        ("({ get a() { return this.constructor } })", "constructor"),
        ("$json.constructor.constructor('return process')()", "constructor"),
        ("$json['const' + 'ructor']", "constructor"),
        ("$json[['constructor']]", "constructor"),
        ("$json[{ toString: () => 'constructor' }]", "constructor"),
        ("(({ constructor: c }) => c)({})", "constructor"),
        ("(({ ['x']: c }) => c)({})", "computed key"),
        ("(function () { return arguments })()", "arguments"),
        ("Object.getPrototypeOf(function* () {})", "getPrototypeOf"),
        ("Object.setPrototypeOf($json, null)", "setPrototypeOf"),
        ("$json.__proto__.polluted = 1", "__proto__"),
        ("({}).__defineGetter__('a', () => 1)", "__defineGetter__"),
        ("Object['prototype'].polluted = 1", "prototype"),
        ("import.meta", "invalid syntax"),
        ("new.target", "invalid syntax"),
    ],
)
def test_ends_in_an_error(small: Sandbox, source: str, message: str) -> None:
    started = time.monotonic()
    assert re.search(message, failure(source, {"a": 1}, sandbox=small))
    assert time.monotonic() - started < ENOUGH_S
    assert of("$json.a + 1", {"a": 1}, sandbox=small) == 2


@pytest.mark.parametrize(
    "source",
    [
        "(() => { Object.assign(Array, {polluted: 1}) })()",
        "(() => { Math.polluted = 1; JSON.parse = 1 })()",
        "(() => { DateTime.polluted = 1 })()",
        "$now.zone.polluted = 1",
        "(() => { ''.toTitleCase.polluted = 1 })()",
        "(() => { Intl.DateTimeFormat.polluted = 1 })()",
        "(() => { $if.polluted = 1; extend.polluted = 1 })()",
        "polluted = 1",
        "(() => { polluted = 1 })()",
        "this.polluted = 1",
        "Object.assign(Object.entries({a: 1})[Symbol.iterator](), {polluted: 1})",
        "'secret value'.match(/(secret) (.*)/)",
    ],
)
def test_nothing_stays_for_the_next(source: str) -> None:
    of(source)
    for where in (
        *(
            "polluted",
            "this.polluted",
            "({}).polluted",
            "[].polluted",
            "Array.polluted",
            "Math.polluted",
            "$if.polluted",
        ),
        *("DateTime.polluted", "$now.zone.polluted", "''.toTitleCase?.polluted", "Intl.DateTimeFormat.polluted"),
        *(
            "extend.polluted",
            "[][Symbol.iterator]().polluted",
            "RegExp.$1 || undefined",
            "RegExp.lastMatch || undefined",
        ),
    ):
        assert of(f"{where} + ''") in (None, "undefined"), where
    assert of("JSON.parse('[1]')") == [1]


@pytest.mark.parametrize(
    "source, expected",
    [
        ("(() => { const o = {}; o.toString = () => 'own'; o.valueOf = 1; return o + '' + o.valueOf })()", "own1"),
        ("['a', 'toString', 'toString'].reduce((n, w) => { n[w] = (n[w] ?? 0) === 1 ? 2 : 1; return n }, {})", None),
        (
            "(() => { const e = new Error('m'); e.name = 'Mine'; e.message = 'other'; return String(e) })()",
            "Mine: other",
        ),
        ("(() => { class E extends Error { name = 'E' }; return new E('m').toString() })()", "E: m"),
    ],
)
def test_objects_of_an_expressions_own_can_have_any_field(source: str, expected: object) -> None:
    found = of(source)
    assert found == (expected or {"a": 1, "toString": 2})


def test_the_sandbox_knows_nothing_of_its_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_OF_THE_WORKER", "1")
    made = Sandbox(LIMITS)
    try:
        assert of("1 + 1", sandbox=made) == 2
        (process,) = made.expressions.pids
        environ = Path(f"/proc/{process}/environ").read_text()
    finally:
        asyncio.run(made.close())
    assert environ == "TZ=UTC\0"
