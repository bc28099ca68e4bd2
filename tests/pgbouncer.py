"""A real PgBouncer in transaction mode before a test's PostgreSQL; a loud skip where it is not installed."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.postgres import NOBODY
from tests.stack import free_port, until

MISSING = "PGBOUNCER IS NOT TESTED HERE: run `apt-get install pgbouncer`"
FEW = 5
"""Connections to the server: so few that clients constantly take over what others have used."""


@contextmanager
def pgbouncer(
    fields: Mapping[str, Any], *, files: Mapping[str, bytes] | None = None, **settings: object
) -> Iterator[dict[str, Any]]:
    """The fields of a credential that leads through it. `files`: settings that name a file, and what is in it."""
    program = shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
    if program is None:
        pytest.skip(MISSING)
    folder, port = Path(tempfile.mkdtemp(prefix="convoq-pgbouncer-")), free_port()
    config, log = folder / "ini", folder / "log"
    known = {
        "listen_addr": "127.0.0.1",
        "listen_port": port,
        "unix_socket_dir": "",
        "auth_type": "any",
        "pool_mode": "transaction",
        "default_pool_size": FEW,
        "max_client_conn": 200,
        **settings,
        **{name: folder / name for name in files or {}},
    }
    target = f"host=127.0.0.1 port={fields['port']} dbname={fields['database']} user={fields['user']}"
    lines = [f"{name} = {value}" for name, value in known.items()]
    config.write_text("\n".join(["[databases]", f"* = {target}", "[pgbouncer]", *lines]) + "\n")
    folder.chmod(0o755)
    user = NOBODY if os.geteuid() == 0 else None
    for name, text in (files or {}).items():
        (folder / name).write_bytes(text)
    try:
        with log.open("wb") as output:
            process = subprocess.Popen([program, config], stdout=output, stderr=output, user=user, group=user)

        def ready() -> bool:
            text = log.read_text(errors="replace")
            assert process.poll() is None, f"PgBouncer ended: {text[-2000:]}"
            return "process up" in text

        try:
            until(ready, "PgBouncer to start", timeout_s=30)
            yield {**fields, "port": port}
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(20)
    finally:
        shutil.rmtree(folder)
