"""SIGTERM and SIGINT end every process at once when it has nothing to hand back, wherever it is."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.cli.support import environment, running_up
from tests.process.servers import silent
from tests.stack import Process, Stack, chat_workflow, free_port, until, valkey

AT_ONCE_S = 1.0
SIGNALS = (signal.SIGTERM, signal.SIGINT)
COMMANDS = ("api", "worker")
in_a_namespace = pytest.mark.skipif(
    shutil.which("unshare") is None or subprocess.run(["unshare", "--pid", "--fork", "true"]).returncode != 0,
    reason="no process can be made PID 1 here: needs unshare and the right to use it",
)


def handles(pid: int, number: int) -> bool:
    """Whether the process has a handler for the signal."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("SigCgt:"):
            return bool(int(line.split()[1], 16) >> (number - 1) & 1)
    return False


def empty_python_s() -> float:
    began = time.monotonic()
    subprocess.run([sys.executable, "-c", "import asyncio"], check=True)
    return time.monotonic() - began


def ends_at_once(end: Callable[[], object], *, times: int = 1) -> None:
    """A second for each of `times` processes, on a machine that has nothing else to do; more where even an empty Python
    takes long to start and end."""
    slow_s = empty_python_s()
    began = time.monotonic()
    end()
    took_s = time.monotonic() - began
    assert took_s < times * max(AT_ONCE_S, 12 * max(slow_s, empty_python_s()))


def told_to_end(popen: subprocess.Popen[bytes], *numbers: int) -> Callable[[], object]:
    def end() -> None:
        for number in numbers:
            popen.send_signal(number)
        popen.wait(30)

    return end


def told(process: Process) -> str:
    return process.log.read_text()


@pytest.mark.parametrize("number", SIGNALS)
@pytest.mark.parametrize("command", [*COMMANDS, "up"])
def test_while_it_is_imported(command: str, number: int, folder: Path) -> None:
    process = Stack(folder, f"redis://127.0.0.1:{free_port()}").start(command)
    until(lambda: handles(process.popen.pid, signal.SIGTERM), "the first handler")
    ends_at_once(told_to_end(process.popen, number))
    assert process.popen.returncode in (128 + number, 0)
    assert "Traceback" not in told(process)


@pytest.mark.parametrize("number", SIGNALS)
@pytest.mark.parametrize("command", COMMANDS)
def test_before_redis(command: str, number: int, folder: Path) -> None:
    process = Stack(folder, f"redis://127.0.0.1:{free_port()}").start(command)
    until(lambda: "waiting for redis" in told(process), "it waits", timeout_s=30)
    ends_at_once(told_to_end(process.popen, number))
    assert process.popen.returncode == 0
    assert "Traceback" not in told(process)


@pytest.mark.parametrize("number", SIGNALS)
@pytest.mark.parametrize("command", [*COMMANDS, "up"])
def test_while_it_connects(command: str, number: int, folder: Path) -> None:
    """To a server that takes the connection and says nothing more."""
    seen = 0

    def met() -> None:
        nonlocal seen
        seen += 1

    with silent(met) as port:
        stack = Stack(folder, f"redis://127.0.0.1:{port}")
        process = stack.start(command)
        until(lambda: seen, "a connection", timeout_s=30)
        ends_at_once(told_to_end(process.popen, number))
        assert process.popen.returncode == 0
        assert "Traceback" not in told(process)


@pytest.fixture
def running(redis_url: str, folder: Path) -> Iterator[Stack]:
    stack = Stack(folder, f"{redis_url}/11", {"CONVOQ_LEASE_S": "1"})
    try:
        with stack.redis() as client:
            client.flushdb()
        stack.start_api()
        stack.start_worker()
        stack.wait_ready()
        stack.install(chat_workflow("slow", delay_ms=300))
        yield stack
    finally:
        for process in stack.processes:  # what a test left running need not be waited for
            process.popen.kill()
            process.popen.wait(10)


@pytest.mark.parametrize("number", SIGNALS)
def test_with_nothing_to_do(running: Stack, number: int) -> None:
    for process in reversed(running.processes):
        ends_at_once(told_to_end(process.popen, number))
        assert process.popen.returncode == 0
        assert "Traceback" not in told(process)
    with running.redis() as client:
        assert client.scard("convoq:rq:workers") == 0


@pytest.mark.parametrize("number", SIGNALS)
def test_twice_in_a_row(running: Stack, number: int) -> None:
    for process in reversed(running.processes):
        ends_at_once(told_to_end(process.popen, number, number, number))
        assert process.popen.returncode == 0
        assert "Traceback" not in told(process)


@pytest.mark.parametrize("number", SIGNALS)
def test_a_second_signal_while_draining(running: Stack, number: int) -> None:
    """The first lets the answer come to its end; the second does not."""
    api, worker = running.processes
    with running.live("slow", "hello") as live:
        live.until_item()
        worker.popen.send_signal(number)
        api.popen.send_signal(number)
        live.until_item()
        assert worker.popen.poll() is None and api.popen.poll() is None
        ends_at_once(told_to_end(worker.popen, number))
        assert [line["type"] for line in live.chunks()][-2:] == ["error", "end"]
    ends_at_once(told_to_end(api.popen, number))
    assert worker.popen.returncode == api.popen.returncode == 0
    assert "Traceback" not in told(worker) + told(api)


def test_an_api_that_drains_ends_at_a_second_signal(running: Stack) -> None:
    api, _ = running.processes
    with running.live("slow", "hello") as live:
        live.until_item()
        api.popen.send_signal(signal.SIGTERM)
        live.until_item()
        ends_at_once(told_to_end(api.popen, signal.SIGTERM))
        *_, error, end = live.chunks()
        assert (error["type"], error["code"], end["type"]) == ("error", "shutting_down", "end")
        assert api.popen.returncode == 0
        assert "Traceback" not in told(api)


@pytest.mark.parametrize("number", SIGNALS)
def test_while_redis_is_frozen(number: int, folder: Path) -> None:
    """Nothing runs, nothing answers."""
    with ExitStack() as stop:
        server = stop.enter_context(valkey(folder / "valkey", save=""))
        stack = Stack(folder, server.connection_url)
        stop.callback(stack.stop)
        stack.start_api()
        stack.start_worker()
        stack.wait_ready()
        assert server._process is not None
        pid = server._process.pid
        os.kill(pid, signal.SIGSTOP)
        stop.callback(os.kill, pid, signal.SIGCONT)
        until(lambda: stack.get("/readyz").status == 503, "readyz is red")
        for process in reversed(stack.processes):
            ends_at_once(told_to_end(process.popen, number))
            assert process.popen.returncode == 0
            assert "Traceback" not in told(process)


@pytest.mark.parametrize("number", SIGNALS)
def test_convoq_up(number: int, folder: Path) -> None:
    """It ends its children first, then Valkey, which syncs its file."""
    with running_up(folder, "--workers", "1") as up:
        ends_at_once(told_to_end(up.popen, number), times=2)
        assert up.popen.returncode == 0
        assert up.stderr.splitlines()[-1] == "stopped"


@in_a_namespace
@pytest.mark.parametrize("number", SIGNALS)
@pytest.mark.parametrize("command", COMMANDS)
def test_as_the_first_process_of_a_container(command: str, number: int, redis_url: str, folder: Path) -> None:
    """Without an init: the kernel drops signals that PID 1 has no handler for."""

    def start(url: str) -> subprocess.Popen[bytes]:
        env = environment(CONVOQ_REDIS_URL=url, CONVOQ_PORT=str(free_port()))
        unshare = ["unshare", "--pid", "--fork", "--kill-child"]
        with (folder / "log").open("wb") as log:
            command_line = [*unshare, sys.executable, "-m", "convoq.cli.entry", command]
            return subprocess.Popen(command_line, env=env, stdout=log, stderr=log)

    def said(text: str) -> Callable[[], bool]:
        return lambda: text in (folder / "log").read_text()

    def first(outer: subprocess.Popen[bytes]) -> int:
        children = Path(f"/proc/{outer.pid}/task/{outer.pid}/children")
        return int(until(lambda: children.read_text().split(), "PID 1")[0])

    def ends(outer: subprocess.Popen[bytes], pid: int) -> None:
        def end() -> None:
            os.kill(pid, number)
            outer.wait(30)

        ends_at_once(end)
        assert outer.returncode in (0, 128 + number)
        assert "Traceback" not in (folder / "log").read_text()

    importing = start(redis_url)
    pid = first(importing)
    until(lambda: handles(pid, signal.SIGTERM), "the first handler")
    ends(importing, pid)

    waiting = start(f"redis://127.0.0.1:{free_port()}")
    until(said("waiting for redis"), "it waits", timeout_s=30)
    ends(waiting, first(waiting))

    at_work = start(f"{redis_url}/12")
    pid = first(at_work)
    until(said("worker started" if command == "worker" else "api takes messages"), "it works", timeout_s=30)
    ends(at_work, pid)
