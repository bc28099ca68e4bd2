"""What only JavaScript does as n8n does it: its regular expressions, and its reading of dates.

Both go through the expressions' door, so that a pattern that never ends is stopped by the same limits.
"""

from __future__ import annotations

import json
import re
from typing import Any

from convoq.contract.context import Context
from convoq.errors import NodeFailed
from convoq.expressions import js

_SLASHES = re.compile(r"/(.*?)/([gimusy]*)")
_TEST = """={{ (() => {
  try {
    return new RegExp(%s, "%s").test(%s);
  } catch (error) {
    return error.message;
  }
})() }}"""
_INSTANT = """={{ (text => {
  for (const read of ["fromISO", "fromHTTP", "fromRFC2822", "fromSQL"]) {
    const date = DateTime[read](text, { setZone: true });
    if (date.isValid) return date.toMillis();
  }
  const millis = Date.parse(text);
  return Number.isNaN(millis) ? null : millis;
})(%s) }}"""


async def matches(ctx: Context[Any], text: str, pattern: str, *, ignore_case: bool = False) -> bool:
    """Whether `pattern`, bare or as `/pattern/flags`, is found in `text`. Raises `NodeFailed` for one that is none,
    `ExpressionFailed` for one that takes too long."""
    flags = ""
    if (slashed := _SLASHES.fullmatch(pattern)) is not None:
        pattern, flags = slashed[1], slashed[2]
    if ignore_case and "i" not in flags:
        flags += "i"
    found = await ctx.evaluate(_TEST % (_literal(pattern), flags, _literal(text)))
    if not isinstance(found, bool):
        raise NodeFailed(f"regular expression {pattern[:200]!r}: {found}")
    return found


async def instant(ctx: Context[Any], value: Any) -> float | None:
    """A date and time in milliseconds since 1970: ISO 8601, HTTP, RFC 2822, SQL, or what `Date.parse` takes, in the
    workflow's time zone where it names none. None for what is none."""
    found = await ctx.evaluate(_INSTANT % _literal(js.text(value).strip()))
    return found if isinstance(found, int | float) else None


def _literal(text: str) -> str:
    """A string literal in which nothing looks like the end of an expression."""
    return json.dumps(text).replace("{", "\\u007b").replace("}", "\\u007d")
