"""The value of an arithmetic expression that nobody can be trusted with: own grammar, own limits, no `eval`."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable
from decimal import ROUND_HALF_UP, Decimal

from convoq.errors import ToolFailed

MAX_CHARS = 500
MAX_DEPTH = 50
MAX_BITS = 4096
"""About 1200 digits: beyond that nobody reads the result, and powers of powers would never end."""

Number = int | float
TOKEN = re.compile(
    r"\s*(?:(\d+\.?\d*(?:[eE][-+]?\d+)?|\.\d+(?:[eE][-+]?\d+)?)|([A-Za-z]\w*)|(\*\*|//|[-+*/%^(),]))", re.ASCII
)
SIGNS = str.maketrans({"×": "*", "·": "*", "÷": "/", "−": "-", "–": "-", "{": "(", "}": ")", "[": "(", "]": ")"})
CONSTANTS: dict[str, Number] = {"pi": math.pi, "e": math.e}


def _round(x: Number, digits: int) -> Number:
    """Half away from zero, as people round, where Python rounds to even."""
    if not 0 <= digits <= 14 or abs(x) >= 1e15:
        return round(x, max(-400, min(digits, 400)))
    rounded = Decimal(str(x)).quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP)
    return float(rounded) if digits else int(rounded)


FUNCTIONS: dict[str, tuple[int, int, Callable[..., Number]]] = {
    "sqrt": (1, 1, math.sqrt),
    "abs": (1, 1, abs),
    "round": (1, 2, lambda x, digits=0: _round(x, int(digits))),
    "min": (1, 100, lambda *numbers: min(numbers)),
    "max": (1, 100, lambda *numbers: max(numbers)),
    "sin": (1, 1, math.sin),
    "cos": (1, 1, math.cos),
    "tan": (1, 1, math.tan),
    "log": (1, 2, lambda x, base=10: math.log10(x) if base == 10 else math.log(x, base)),
    "ln": (1, 1, math.log),
    "exp": (1, 1, math.exp),
}


def calculate(text: str) -> str:
    """The value, whole numbers exact, others to 14 digits. Raises `ToolFailed` saying why there is none."""
    if len(text) > MAX_CHARS:
        raise ToolFailed(f"the expression is longer than {MAX_CHARS} characters")
    try:
        value = _Expression(text.translate(SIGNS)).value()
        if isinstance(value, float):
            if not math.isfinite(value):
                raise ArithmeticError("the result is not a number" if math.isnan(value) else "the result is too large")
            return f"{value + 0.0:.14g}"  # + 0.0: nobody wants to read -0
        return str(value)
    except ZeroDivisionError:
        reason = "division by zero"
    except OverflowError:
        reason = "the result is too large"
    except (ArithmeticError, ValueError) as error:
        reason = str(error)
    raise ToolFailed(f"cannot calculate {text!r}: {reason}")


class _Expression:
    """Precedence from low to high: `+ -`, `* / // %`, sign, power (to the right), as in Python and on paper."""

    def __init__(self, text: str) -> None:
        self._tokens: list[tuple[str, str]] = []
        place = 0
        while place < len(text.rstrip()):
            if not (match := TOKEN.match(text, place)):
                raise ValueError(f"unexpected {text[place:].strip()[:20]!r}")
            kind = ("number", "name", "sign")[(match.lastindex or 1) - 1]
            self._tokens.append((kind, match[match.lastindex or 1]))
            place = match.end()
        self._next = 0
        self._depth = 0

    def value(self) -> Number:
        if not self._tokens:
            raise ValueError("it is empty")
        value = self._sum()
        if self._next < len(self._tokens):
            raise ValueError(f"unexpected {self._tokens[self._next][1]!r}")
        return value

    def _accept(self, *signs: str) -> str:
        if self._next < len(self._tokens) and self._tokens[self._next][0] == "sign":
            sign = self._tokens[self._next][1]
            if sign in signs:
                self._next += 1
                return sign
        return ""

    def _expect(self, sign: str) -> None:
        if not self._accept(sign):
            raise ValueError(f"{sign!r} is missing")

    def _sum(self) -> Number:
        value = self._product()
        while sign := self._accept("+", "-"):
            other = self._product()
            value = _bounded(value + other if sign == "+" else value - other)
        return value

    def _product(self) -> Number:
        value = self._signed()
        while sign := self._accept("*", "/", "//", "%"):
            value = _bounded(PRODUCTS[sign](value, self._signed()))
        return value

    def _signed(self) -> Number:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise ValueError("it is nested too deeply")
        sign = self._accept("-", "+")
        value = self._signed() if sign else self._power()
        self._depth -= 1
        return -value if sign == "-" else value

    def _power(self) -> Number:
        value = self._atom()
        return _power(value, self._signed()) if self._accept("**", "^") else value

    def _atom(self) -> Number:
        if self._accept("("):
            value = self._sum()
            self._expect(")")
            return value
        if self._next >= len(self._tokens):
            raise ValueError("it ends too early")
        kind, text = self._tokens[self._next]
        self._next += 1
        if kind == "number":
            return _bounded(int(text)) if text.isdigit() else float(text)
        if kind == "sign":
            raise ValueError(f"unexpected {text!r}")
        if text.lower() in CONSTANTS:
            return CONSTANTS[text.lower()]
        if text.lower() not in FUNCTIONS:
            raise ValueError(f"unknown name {text!r}")
        return self._called(text.lower())

    def _called(self, name: str) -> Number:
        least, most, function = FUNCTIONS[name]
        self._expect("(")
        arguments = [self._sum()]
        while self._accept(","):
            arguments.append(self._sum())
        self._expect(")")
        if not least <= len(arguments) <= most:
            raise ValueError(f"{name} takes {least if least == most else f'{least} to {most}'} argument(s)")
        return _bounded(function(*arguments))


def _divide(a: Number, b: Number) -> Number:
    if isinstance(a, int) and isinstance(b, int) and b and a % b == 0:
        return a // b
    return a / b


def _power(base: Number, exponent: Number) -> Number:
    if isinstance(base, int) and isinstance(exponent, int):
        if exponent > 0 and abs(base) > 1 and exponent * (abs(base).bit_length() - 1) > MAX_BITS:
            raise OverflowError
        power: Number = base**exponent
        return _bounded(power)
    value: object = float(base) ** float(exponent)
    if not isinstance(value, float):
        raise ArithmeticError("the result is not a real number")
    return value


def _bounded(value: Number) -> Number:
    if isinstance(value, int) and value.bit_length() > MAX_BITS:
        raise OverflowError
    return value


PRODUCTS: dict[str, Callable[[Number, Number], Number]] = {
    "*": operator.mul,
    "/": _divide,
    "//": operator.floordiv,
    "%": operator.mod,
}
