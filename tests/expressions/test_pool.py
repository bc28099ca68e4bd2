"""The sandbox's processes: the event loop never waits for them, and they come and go as they are needed."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from convoq.errors import ExpressionFailed
from convoq.expressions.evaluate import evaluate
from convoq.expressions.process import Limits
from convoq.expressions.sandbox import Sandbox
from tests.expressions.support import view

HANG = "={{ (() => { for (;;); })() }}"
DEADLINE_S = 60.0


@asynccontextmanager
async def sandbox(timeout_s: float = 1.0, size: int = 4) -> AsyncIterator[Sandbox]:
    made = Sandbox(Limits(timeout_s=timeout_s, memory_bytes=64 << 20), size=size)
    try:
        yield made
    finally:
        await made.close()
        assert not any(map(runs, made.expressions.pids)) and not made.expressions.pids


def runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


async def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not holds():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.01)


async def evaluated(template: str, made: Sandbox) -> object:
    return await evaluate(template, view({"a": 1}, sandbox=made))


def test_the_loop_runs_on_while_an_expression_hangs() -> None:
    async def run() -> None:
        async with sandbox() as made:
            await evaluated("={{ 1 + 1 }}", made)
            hanging = asyncio.create_task(evaluated(HANG, made))
            ticks = 0
            while not hanging.done():
                await asyncio.sleep(0.01)
                ticks += 1
            with pytest.raises(ExpressionFailed, match="took longer than 1 s"):
                await hanging
            assert ticks > 20

    asyncio.run(run())


def test_others_are_served_while_one_hangs() -> None:
    async def run() -> None:
        async with sandbox(timeout_s=20.0) as made:
            hanging = asyncio.create_task(evaluated(HANG, made))
            await until(lambda: bool(made.expressions.pids))
            assert await asyncio.gather(*(evaluated(f"={{{{ $json.a + {n} }}}}", made) for n in range(50))) == [
                n + 1 for n in range(50)
            ]
            assert not hanging.done()
            hanging.cancel()
            await asyncio.gather(hanging, return_exceptions=True)
            assert len(made.expressions.pids) <= 3

    asyncio.run(run())


def test_one_process_serves_a_burst_and_a_number_is_never_exceeded() -> None:
    async def run() -> None:
        async with sandbox(timeout_s=0.3, size=2) as made:
            for _ in range(3):
                found = await asyncio.gather(*(evaluated(f"={{{{ {n} * 2 }}}}", made) for n in range(100)))
                assert found == [2 * n for n in range(100)]
            assert len(made.expressions.pids) <= 2
            results = await asyncio.gather(*(evaluated(HANG, made) for _ in range(3)), return_exceptions=True)
            assert all(isinstance(one, ExpressionFailed) for one in results)
            assert len(made.expressions.pids) <= 2
            assert await evaluated("={{ $json.a + 1 }}", made) == 2

    asyncio.run(run())


def test_a_cancelled_evaluation_takes_its_process_along() -> None:
    async def run() -> None:
        async with sandbox(timeout_s=20.0, size=1) as made:
            await evaluated("={{ 1 + 1 }}", made)
            (pid,) = made.expressions.pids
            hanging = asyncio.create_task(evaluated(HANG, made))
            await asyncio.sleep(0)
            hanging.cancel()
            await asyncio.gather(hanging, return_exceptions=True)
            await until(lambda: not runs(pid))
            assert await evaluated("={{ $json.a + 1 }}", made) == 2

    asyncio.run(run())


def test_a_process_that_something_else_ended_is_made_up_for() -> None:
    async def run() -> None:
        async with sandbox(size=1) as made:
            await evaluated("={{ 1 + 1 }}", made)
            (pid,) = made.expressions.pids
            os.kill(pid, signal.SIGKILL)
            assert await evaluated("={{ $json.a + 1 }}", made) == 2
            assert pid not in made.expressions.pids

    asyncio.run(run())


def test_processes_end_with_the_worker() -> None:
    async def run() -> set[int]:
        made = Sandbox()
        await evaluated("={{ 1 + 1 }}", made)
        return made.expressions.pids

    (pid,) = asyncio.run(run())
    assert not runs(pid), "nothing holds the sandbox any more"


def test_a_thousand_plain_paths_take_less_than_20_ms() -> None:
    scope = view({"a": {"b": [{"c": 1}]}})

    async def run() -> float:
        started = time.process_time()
        for _ in range(1000):
            await evaluate("={{ $json.a.b[0].c }}", scope)
        return time.process_time() - started

    assert min(asyncio.run(run()) for _ in range(5)) < 0.02


def test_plain_paths_need_no_process() -> None:
    made = Sandbox()
    template = {"a": "={{ $json.a }}", "b": "x {{ $json.a }} {{ PLACEHOLDER }}", "c": ["={{ $('A').first().json.x }}"]}
    found = asyncio.run(evaluate(template, view({"a": 1}, nodes={"A": [{"x": 2}]}, sandbox=made)))
    assert found == {"a": 1, "b": "x {{ $json.a }} {{ PLACEHOLDER }}", "c": [2]}
    assert made.expressions.pids == set()
