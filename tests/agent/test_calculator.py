"""What the Calculator calculates, and what it refuses in no time."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from convoq.errors import ToolFailed
from convoq.nodes.tools.arithmetic import calculate
from convoq.nodes.tools.calculator import Calculator
from tests.agent.harness import CALCULATOR, ScriptedModel, call, node, run_agent


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("19 * 23", "437"),
        ("19*23", "437"),
        ("19 × 23 − 7 ÷ 7", "436"),
        ("2 + 3 * 4", "14"),
        ("(2 + 3) * 4", "20"),
        ("10 - 4 - 3", "3"),
        ("10 / 4", "2.5"),
        ("10 / 5", "2"),
        ("7 // 2", "3"),
        ("-7 // 2", "-4"),
        ("-7 % 3", "2"),
        ("5.5 % 2", "1.5"),
        ("0.1 + 0.2", "0.3"),
        ("1/3", "0.33333333333333"),
        ("3.0 * 2", "6"),
        (".5 + 1.", "1.5"),
        ("1.5e3 + 2E-1", "1500.2"),
        ("2 ^ 10", "1024"),
        ("2 ** 3 ** 2", "512"),
        ("-2 ^ 2", "-4"),
        ("(-2) ^ 2", "4"),
        ("2 ^ -1", "0.5"),
        ("4 ^ 0.5", "2"),
        ("--5 + +3", "8"),
        ("2 ^ 200", str(2**200)),
        ("99999999999999999999 + 1", "100000000000000000000"),
        ("sqrt(16)^2 + 10 % 3", "17"),
        ("abs(-5) + max(1, 2, 3) - min(4, 2)", "6"),
        ("round(2.5) + round(-2.5)", "0"),
        ("round(2.675, 2)", "2.68"),
        ("round(1234, -2)", "1200"),
        ("round(1.5, 1e300)", "1.5"),
        ("sin(0) + cos(0)", "1"),
        ("tan(pi / 4)", "1"),
        ("log(100) + ln(e) + log(8, 2)", "6"),
        ("exp(0) * PI", "3.1415926535898"),
        ("SQRT(4)", "2"),
        ("-0.0", "0"),
        ("[1 + {2}] * 3", "9"),
        ("0 ^ 0", "1"),
    ],
)
def test_values(expression: str, value: str) -> None:
    assert calculate(expression) == value


@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        ("", "it is empty"),
        ("   ", "it is empty"),
        ("2 +", "it ends too early"),
        ("(2 + 3", "')' is missing"),
        ("2 + 3)", "unexpected ')'"),
        ("2 3", "unexpected '3'"),
        ("2 pi", "unexpected 'pi'"),
        ("* 3", "unexpected '*'"),
        ("1,000 * 2", "unexpected ','"),
        ("5!", "unexpected '!'"),
        ("٣ + 1", "unexpected '٣ + 1'"),
        ("x + 1", "unknown name 'x'"),
        ("0x10", "unexpected 'x10'"),
        ("sqrt 4", "'(' is missing"),
        ("sqrt()", "unexpected ')'"),
        ("sqrt(1, 2)", "sqrt takes 1 argument(s)"),
        ("round(1, 2, 3)", "round takes 1 to 2 argument(s)"),
        ("1 / 0", "division by zero"),
        ("1 // 0", "division by zero"),
        ("1 % 0", "division by zero"),
        ("0 ^ -1", "division by zero"),
        ("sqrt(-1)", ""),
        ("log(0)", ""),
        ("log(8, 1)", "division by zero"),
        ("(-8) ^ (1/3)", "not a real number"),
        ("1e400", "too large"),
        ("1e308 * 10", "too large"),
        ("1e400 - 1e400", "not a number"),
        ("exp(1000)", "too large"),
        ("9**9**9", "too large"),
        ("9^9^9^9", "too large"),
        ("(2^4000) * (2^4000)", "too large"),
        ("(2^4000) ^ 2.5", "too large"),
        ("2^4000 / 3", "too large"),
        ("1.5 ^ 99999999999999999999", "too large"),
        ("9" * 500 + "^2", "longer than 500 characters"),
        ("1" * 501, "longer than 500 characters"),
        ("(" * 200 + "1" + ")" * 200, "nested too deeply"),
        ("-" * 400 + "1", "nested too deeply"),
        ("2" + "^2" * 200, ""),
        ("round(1.5, inf)", "unknown name 'inf'"),
        ("__import__('os').system('id')", "unexpected"),
        ("().__class__", "unexpected"),
        ("1;2", "unexpected ';2'"),
        ("1\x00", "unexpected"),
    ],
)
def test_refused(expression: str, reason: str) -> None:
    started = time.perf_counter()
    with pytest.raises(ToolFailed) as raised:
        calculate(expression)
    assert reason in raised.value.message
    assert time.perf_counter() - started < 0.5
    assert len(raised.value.message) < 700


def test_a_call() -> None:
    calculator = Calculator("Calculator")
    assert asyncio.run(calculator.call({"input": "19 * 23"})) == "437"
    assert asyncio.run(calculator.call({"input": 5})) == "5"
    assert calculator.spec.parameters["properties"]["input"]["type"] == "string"


@pytest.mark.parametrize("arguments", [{}, {"input": None}, {"input": ["1"]}, {"input": True}, {"expression": "1"}])
def test_a_call_without_an_expression(arguments: dict[str, Any]) -> None:
    with pytest.raises(ToolFailed, match="argument 'input' must be"):
        asyncio.run(Calculator("Calculator").call(arguments))


def test_its_name_is_that_of_its_node() -> None:
    model = ScriptedModel([[call("c1", "My_sums", '{"input":"1 +"}')], ["ok"]])
    bench = run_agent({"Model": model}, tools=[node("My sums", CALCULATOR)])
    assert [spec.name for spec in model.offered[0]] == ["My_sums"]
    (run,) = bench.runs_of("My sums")
    assert run.error == {"code": "tool_failed", "message": "cannot calculate '1 +': it ends too early"}
