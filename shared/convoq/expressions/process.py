"""One process of the sandbox, as the worker holds it."""

from __future__ import annotations

import asyncio
import importlib.util
import signal
import socket
import struct
import subprocess
import sys
import weakref
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

HEADER = struct.Struct("!I")
HOST = Path(__file__).with_name("host.py")
CRASHES = {-signal.SIGTRAP, -signal.SIGABRT, -signal.SIGILL, -signal.SIGSEGV, -signal.SIGBUS}
"""How V8 ends where it gets no memory."""
Kind = Literal["expressions", "code"]


@dataclass(frozen=True, slots=True)
class Limits:
    """Of one request: seconds of processor time, bytes of memory, bytes of its answer. `timezone` is an IANA name."""

    timeout_s: float = 1.0
    memory_bytes: int = 128 << 20
    answer_bytes: int = 16 << 20
    timezone: str = "UTC"


class Ended(Exception):
    """The process ended; the message says why. `over_limit`: by what it was asked to do."""

    def __init__(self, message: str, over_limit: bool) -> None:
        super().__init__(message)
        self.over_limit = over_limit


class Process:
    """One sandbox. It takes one request at a time, when it is `ready`."""

    def __init__(self, kind: Kind, limits: Limits) -> None:
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        spec = importlib.util.find_spec("py_mini_racer")
        assert spec is not None and spec.origin is not None
        arguments = (str(Path(spec.origin).parent.parent), kind, str(limits.memory_bytes), str(limits.timeout_s))
        with theirs:
            self._popen = subprocess.Popen(
                [sys.executable, "-I", "-S", str(HOST), *arguments],
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                env={"TZ": limits.timezone},
                cwd="/",
                start_new_session=True,
            )
        self.pid = self._popen.pid
        self._limits = limits
        self._socket = ours
        self._got = bytearray()
        self._is_ready = False
        self.end = weakref.finalize(self, _end, ours, self._popen)

    async def request(self, body: bytes) -> bytes:
        """Raises `Ended`."""
        loop = asyncio.get_running_loop()
        self._is_ready = False
        try:
            await loop.sock_sendall(self._socket, HEADER.pack(len(body)) + body)
        except OSError:
            pass  # It has ended: what it ended by is found by reading.
        return await self._frame()

    async def ready(self) -> None:
        """Wait until it takes the next request. Raises `Ended`."""
        if not self._is_ready:
            await self._frame()
            self._is_ready = True

    @property
    def says_ready(self) -> bool:
        """Whether `ready` would not wait."""
        return self._is_ready or len(self._got) >= HEADER.size

    async def _frame(self) -> bytes:
        while len(self._got) < HEADER.size:
            await self._read()
        (count,) = HEADER.unpack_from(self._got)
        if count > 2 * self._limits.answer_bytes:
            raise Ended("the sandbox's answer is too large", over_limit=True)
        while len(self._got) < HEADER.size + count:
            await self._read()
        content = bytes(self._got[HEADER.size : HEADER.size + count])
        del self._got[: HEADER.size + count]
        return content

    async def _read(self) -> None:
        try:
            part = await asyncio.get_running_loop().sock_recv(self._socket, 1 << 18)
        except OSError:
            part = b""
        if not part:
            raise self._ended(await asyncio.to_thread(self._popen.wait))
        self._got += part

    def _ended(self, code: int) -> Ended:
        if code in (-signal.SIGPROF, -signal.SIGALRM):
            return Ended(f"it took longer than {self._limits.timeout_s:g} s", over_limit=True)
        if code in CRASHES:
            return Ended(f"it needed more than {self._limits.memory_bytes >> 20} MB of memory", over_limit=True)
        return Ended(f"the sandbox ended with {code}", over_limit=False)


def _end(connection: socket.socket, popen: subprocess.Popen[bytes]) -> None:
    connection.close()
    popen.kill()
    popen.wait()
