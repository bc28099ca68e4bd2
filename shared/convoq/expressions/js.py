"""JavaScript's conversions, which expressions and conversions of values follow."""

from __future__ import annotations

import math
import re
from decimal import Decimal
from typing import Any

_NUMBER = re.compile(r"[+-]?(?:(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?|Infinity)")
_RADIX = re.compile(r"0(?:[xX][0-9a-fA-F]+|[oO][0-7]+|[bB][01]+)")
_SAFE_INTEGER = 2**53


def number_text(value: int | float) -> str:
    """A number as JavaScript writes it: `7`, `7.5`, `1e+21`, `1e-7`, `NaN`."""
    if isinstance(value, int) and abs(value) <= _SAFE_INTEGER:
        return str(value)
    number = float(value)
    if math.isnan(number):
        return "NaN"
    if math.isinf(number):
        return "Infinity" if number > 0 else "-Infinity"
    if number == 0:
        return "0"
    if 1e-6 <= abs(number) < 1e21:
        plain = format(Decimal(repr(number)), "f")
        return plain.rstrip("0").rstrip(".") if "." in plain else plain
    digits, _, exponent = repr(number).partition("e")
    return f"{digits.removesuffix('.0')}e{int(exponent):+d}"


def text(value: Any) -> str:
    """`String(value)`, but for null and undefined nothing: what a template makes of a value."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return number_text(value)
    if isinstance(value, list):
        return ",".join(map(text, value))
    return "[object Object]"


def number(value: Any) -> int | float:
    """`Number(value)`; what is none gives NaN."""
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, int | float):
        return value
    if value is None:
        return 0
    if isinstance(value, list | str):
        written = text(value).strip()
        if not written:
            return 0
        if _RADIX.fullmatch(written):
            return int(written, 0)
        if _NUMBER.fullmatch(written):
            found = float(written.replace("Infinity", "inf"))
            return int(found) if found.is_integer() else found
    return math.nan


def member(value: Any, key: str | int) -> Any:
    """`value?.[key]` over JSON values: what is not there is None."""
    if isinstance(value, dict):
        return value.get(key if isinstance(key, str) else str(key))
    if isinstance(value, list | str):
        if key == "length":
            return len(value) if isinstance(value, list) else len(value.encode("utf-16-le", "surrogatepass")) // 2
        if isinstance(key, str):
            if not (key.isascii() and key.isdigit()):
                return None
            key = int(key)
        return value[key] if key < len(value) else None
    return None


def truthy(value: Any) -> bool:
    """`Boolean(value)`."""
    return isinstance(value, dict | list) or (bool(value) and value == value)
