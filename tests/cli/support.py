"""`convoq` as a user types it."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.stack import ROOT, until

needs_curl = pytest.mark.skipif(shutil.which("curl") is None, reason="no curl here: apt-get install curl")
COMMAND = (sys.executable, "-m", "convoq.cli.entry")


def environment(**extra: str) -> dict[str, str]:
    """This one without what a developer may have set for convoq."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("CONVOQ_", "OPENAI_"))}
    return {**kept, "PYTHONPATH": os.pathsep.join(str(ROOT / part) for part in ("api", "worker", "shared")), **extra}


def convoq(
    *arguments: str, cwd: Path, given: str = "", env: Mapping[str, str] | None = None, timeout_s: float = 60
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *arguments],
        cwd=cwd,
        env=environment(**(env or {})),
        input=given,
        capture_output=True,
        text=True,
        timeout=timeout_s,
    )


@dataclass
class Up:
    """A running `convoq up`, its output in two files."""

    popen: subprocess.Popen[bytes]
    folder: Path

    @property
    def stdout(self) -> str:
        return (self.folder / "up.out").read_text()

    @property
    def stderr(self) -> str:
        return (self.folder / "up.err").read_text()

    @property
    def curl(self) -> str:
        """The line to paste."""
        found = re.search(r"curl -N .*", self.stdout)
        assert found, self.stdout
        return found[0]

    @property
    def url(self) -> str:
        found = re.search(r"http://\S+", self.stdout)
        assert found, self.stdout
        return found[0]

    def children(self) -> dict[int, str]:
        """pid -> command line."""
        pids = Path(f"/proc/{self.popen.pid}/task/{self.popen.pid}/children").read_text().split()
        return {int(pid): _command_line(int(pid)) for pid in pids}

    def child(self, role: str) -> int:
        return next(pid for pid, line in self.children().items() if role in line)

    def stop(self, number: signal.Signals = signal.SIGINT) -> int:
        if self.popen.poll() is None:
            self.popen.send_signal(number)
        return self.popen.wait(60)


def _command_line(pid: int) -> str:
    return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@contextmanager
def running_up(folder: Path, *arguments: str, port: int = 0, ready: bool = True) -> Iterator[Up]:
    """`convoq up` in that folder on a free port, answering; stopped at the end."""
    with (folder / "up.out").open("wb") as out, (folder / "up.err").open("wb") as err:
        popen = subprocess.Popen(
            [*COMMAND, "up", "--port", str(port), *arguments],
            cwd=folder,
            env=environment(),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            start_new_session=True,
        )
    up = Up(popen, folder)
    try:
        if ready:
            until(lambda: "curl -N" in up.stdout or popen.poll() is not None, "convoq up is ready", timeout_s=60)
            assert popen.poll() is None, up.stderr
        yield up
    finally:
        up.stop()
