"""The processes that `convoq up` keeps running."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Callable, Mapping, Sequence

from convoq.cli import parent

BACKOFF_S = (0.5, 1.0, 2.0, 5.0, 10.0, 30.0)
STEADY_S = 30.0
"""A child that lived this long starts its back-off anew."""


class Child:
    """One `convoq` command run as a process of its own session, so that a terminal's Ctrl-C reaches only `up`."""

    def __init__(self, name: str, arguments: Sequence[str], environment: Mapping[str, str], fds: Sequence[int]) -> None:
        """`fds` are inherited; the first is the pipe that tells the child of its parent's death."""
        self.name = name
        self._command = [sys.executable, "-m", "convoq.cli.entry", *arguments]
        self._environment = {**environment, parent.VARIABLE: str(fds[0])}
        self._fds = tuple(fds)
        self._process: asyncio.subprocess.Process | None = None
        self._stopping = asyncio.Event()

    async def start(self) -> None:
        self._process = await asyncio.create_subprocess_exec(
            *self._command,
            env=self._environment,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=sys.stderr.fileno(),
            start_new_session=True,
            pass_fds=self._fds,
        )

    async def ended(self) -> int:
        """The exit code, negative for a signal."""
        assert self._process is not None
        return await self._process.wait()

    async def keep_running(self, report: Callable[[str], None]) -> None:
        """Start it again whenever it ends, until it is told to stop."""
        loop = asyncio.get_running_loop()
        failures = 0
        while True:
            since = loop.time()
            code = await self.ended()
            if self._stopping.is_set():
                return
            failures = 1 if loop.time() - since > STEADY_S else failures + 1
            pause = BACKOFF_S[min(failures, len(BACKOFF_S)) - 1]
            report(f"{self.name} ended with {describe(code)}; starting it again in {pause:g} s")
            await asyncio.sleep(pause)
            if self._stopping.is_set():
                return
            await self.start()

    def signal(self, number: signal.Signals) -> None:
        self._stopping.set()
        if self._process is not None and self._process.returncode is None:
            self._process.send_signal(number)


def describe(code: int) -> str:
    return f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"


async def stop_all(children: Sequence[Child], grace_s: float, hurry: asyncio.Event) -> list[str]:
    """SIGTERM, wait for them to drain, SIGKILL those left after `grace_s` or once `hurry` is set; their names."""
    for child in children:
        child.signal(signal.SIGTERM)
    waiting = {asyncio.create_task(child.ended()): child for child in children}
    hurried = asyncio.create_task(hurry.wait())
    deadline = asyncio.get_running_loop().time() + grace_s
    pending: set[asyncio.Task[int]] = set(waiting)
    while pending and not hurry.is_set() and (left := deadline - asyncio.get_running_loop().time()) > 0:
        done, _ = await asyncio.wait({*pending, hurried}, timeout=left, return_when=asyncio.FIRST_COMPLETED)
        pending -= done
    hurried.cancel()
    for task in pending:
        waiting[task].signal(signal.SIGKILL)
    if pending:
        await asyncio.wait(pending)
    return [waiting[task].name for task in pending]
