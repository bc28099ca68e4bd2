"""The methods that n8n adds to values; what they give, and where they fail, is n8n's."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.expressions.support import failure, of


@pytest.mark.parametrize(
    "source, expected",
    [
        ("'x'.hash()", "9dd4e461268c8034f5c8564e155c67a6"),
        ("'x'.hash('sha256')", "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881"),
        ("'é👋'.base64Encode()", "w6nwn5GL"),
        ("'w6nwn5GL'.base64Decode()", "é👋"),
        ("'YW-_'.base64Decode()", "ao\ufffd"),
        ("'# T\\n**bold** [x](http://y)'.removeMarkdown()", "T\nbold x"),
        ("'<p>a<br/>b</p>'.removeTags()", "ab"),
        ("'2026-01-02'.toDateTime().plus({days: 1}).toISODate()", "2026-01-03"),
        ("'1767323045'.toDateTime('s').toISO()", "2026-01-02T03:04:05.000Z"),
        ("'45000'.toDateTime('excel').toISODate()", "2023-03-15"),
        ("'02.01.2026'.toDateTime('dd.MM.yyyy').toISODate()", "2026-01-02"),
        ("['true', '0', 'no', 'off', '', 'FALSE'].map(x => x.toBoolean())", [True, False, False, True, False, False]),
        ("['1.5abc'.toFloat(), '12abc'.toInt(), 'ff'.toInt(16), '1e3'.toNumber()]", [1.5, 12, 255, 1000]),
        ("'hello. world foo! bar'.toSentenceCase()", "Hello. World foo! Bar"),
        ("'helloWorld foo-bar Qux'.toSnakeCase()", "helloworld_foo_bar_qux"),
        ("'a tale of two cities'.toTitleCase()", "A Tale of Two Cities"),
        ("'a b/c'.urlEncode() + 'a%20b'.urlDecode()", "a%20b%2Fca b"),
        ("'say \"x\"'.quote()", '"say \\"x\\""'),
        ("'Привет, Grüße'.replaceSpecialChars()", "Privet, Grusse"),
        ("['example.com', 'http://a.com', 'localhost', 'x'].map(x => x.isDomain())", [True, False, True, False]),
        ("['a@b.co', 'a@b', 'a b@c.de'].map(x => x.isEmail())", [True, False, False]),
        ("['1', '0x10', '', ' 1', 'x'].map(x => x.isNumeric())", [True, True, False, False, False]),
        ("['https://a.com/x', 'http://localhost:1', 'a.com'].map(x => x.isUrl())", [True, True, False]),
        ("'write to <a@b.co> or see https://a.com/x?y'.extractEmail()", "a@b.co"),
        ("'see https://a.com/x?y now'.extractUrl()", "https://a.com/x?y"),
        ("'https://sub.a.com:80/a/b?x#f'.extractUrlPath()", "/a/b"),
        ("'https://sub.a.com:80/a?x'.extractDomain() + 'me@b.com'.extractDomain()", "sub.a.comb.com"),
        ("'[1]'.parseJson().first()", 1),
        ("'x'.toJsonString() + [1].toJsonString() + ({a: 1}).toJsonString()", '"x"[1]{"a":1}'),
        ("[(1.5).ceil(), (1.5).floor(), (-1.5).round(), (1.005).round(2), (-5).abs()]", [2, 1, -2, 1, 5]),
        ("(1234.5).format('de-DE')", "1.234,5"),
        (
            "[(4).isEven(), (3).isOdd(), (5.5).isInteger(), (0).toBoolean(), (5.7).toInt()]",
            [True, True, False, False, 6],
        ),
        ("(1767323045678).toDateTime().toISO()", "2026-01-02T03:04:05.678Z"),
        ("[true.toInt(), false.toNumber()]", [1, 0]),
        ("[3, 1, 3].unique()", [3, 1]),
        ("[{a: 1, b: 2}, {a: 1, b: 3}].removeDuplicates('a')", [{"a": 1, "b": 2}]),
        ("[{a: 1, b: 2}, {a: 3}].pluck('a')", [1, 3]),
        ("[[1, 2].sum(), [3, 1].min(), [3, 1].max(), [3, 1].average()]", [3, 1, 3, 2]),
        ("[1, null, '', {}, [], 0, {a: {b: ''}, c: [1, null]}].compact()", [1, 0, {"a": {}, "c": {"0": 1}}]),
        ("[{k: 'a', v: 1}].smartJoin('k', 'v')", {"a": 1}),
        ("[1, 2, 3].chunk(2)", [[1, 2], [3]]),
        ("[{a: 1, b: 2}].renameKeys('a', 'x')", [{"b": 2, "x": 1}]),
        ("[{a: 1}, {c: 1}].merge([{b: 2}])", {"a": 1, "b": 2}),
        ("[1, 2].union([2, 3]).concat([1, 2].difference([2]), [1, 2].intersection([2]))", [1, 2, 3, 1, 2]),
        ("[1].append(2, [3])", [1, 2, [3]]),
        ("({a: 1, b: 2}).removeField('a').keys()", ["b"]),
        ("({a: 'xy', b: 'z'}).keepFieldsContaining('x')", {"a": "xy"}),
        ("({a: 'xy', b: 'z', c: 1}).removeFieldsContaining('x').values()", ["z", 1]),
        ("({a: 1, b: 'x y'}).urlEncode() + ({a: 1}).hasField('a')", "a=1&b=x+ytrue"),
        ("DateTime.fromISO('2026-01-02').beginningOf('week').toISODate()", "2025-12-29"),
        ("DateTime.fromISO('2026-01-02').diffTo('2026-01-05', 'days')", -3),
        ("DateTime.fromISO('2026-01-02').isBetween('2026-02-01', '2026-01-01')", True),
        ("DateTime.fromISO('2026-01-02').plus(1, 'day').format('dd LLL')", "03 Jan"),
        ("new Date('2026-01-02').plus(1, 'day').endOfMonth()", "2026-01-31T23:59:59.999Z"),
        ("DateTime.fromISO('2026-01-02').extract('month')", 1),
        (
            "[null.isEmpty(), undefined.isNotEmpty(), ''.isEmpty(), [].isEmpty(), (0).isEmpty()]",
            [True, False, True, True, True],
        ),
        ("({first: () => 5}).first()", 5),
        ("Math.max(1, 2) + Object.keys({a: 1}).length", 3),
    ],
)
def test_values(source: str, expected: Any) -> None:
    assert of(source) == expected


@pytest.mark.parametrize(
    "source, message",
    [
        ("'x'.hash('nope')", "unknown algorithm nope"),
        ("'x'.toNumber()", "cannot convert to number"),
        ("'1,5'.toFloat()", "expected . as decimal separator"),
        ("'x'.toDateTime()", "cannot convert to Luxon DateTime"),
        ("'{a'.parseJson()", "Parsing failed"),
        ("(4.5).isEven()", "only callable on integers"),
        ("['1'].sum()", "must be numbers"),
        ("[1].chunk(0)", "above zero"),
        ("[1].union()", "expected array arg"),
        ("({}).keepFieldsContaining('')", "non-empty string"),
        ("DateTime.now().isBetween('2026-01-01')", "exactly two args"),
        ("'2026-01-02T03:04:05.678Z'.isUrl()", r'only callable on type "String"'),
        ("(5).first()", r'only callable on type "Array"'),
        ("$ifEmpty('')", "two arguments"),
        ("$jmespath('x', 'a')", "two arguments"),
    ],
)
def test_what_fails(source: str, message: str) -> None:
    assert re.search(message, failure(source))
