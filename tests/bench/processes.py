"""The bench's processes, and what they use."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

TICK_MS = 1000 / os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Process:
    name: str
    pid: int

    def cpu_ms(self) -> float:
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) * TICK_MS

    def rss_mb(self) -> float:
        for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) / 1024
        raise ValueError(f"{self.name} has ended")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@asynccontextmanager
async def python(
    name: str, arguments: Sequence[str], environment: Mapping[str, str] | None = None
) -> AsyncIterator[Process]:
    """`python ARGUMENTS` for the block's length; killed where it does not end within 15 s of a SIGTERM."""
    child = await asyncio.create_subprocess_exec(
        sys.executable, *arguments, env={**os.environ, **(environment or {})}, stdout=sys.stderr.fileno()
    )
    try:
        yield Process(name, child.pid)
    finally:
        if child.returncode is None:
            child.send_signal(signal.SIGTERM)
        try:
            async with asyncio.timeout(15):
                await child.wait()
        except TimeoutError:
            child.kill()
            await child.wait()
