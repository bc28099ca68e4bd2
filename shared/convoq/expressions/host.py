"""The sandbox's own process: JavaScript runs in it, and nothing else does.

`python -I -S host.py SITE_PACKAGES KIND MEMORY_BYTES TIMEOUT_S` imports the standard library and mini-racer only.
Frames on the socket that is its standard input are a length of four bytes and UTF-8 JSON; an empty frame from here says
that the next request may come. It ends with the socket, and by a signal where a request goes over a limit: nothing that
JavaScript does can keep it from that, nor hurt the worker.
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import signal
import socket
import struct
import sys
from pathlib import Path
from typing import Any

HEADER = struct.Struct("!I")
WALL_FACTOR = 3
"""A request may take this many times its processor time: on a busy machine it waits for its turn."""
RUNTIME = Path(__file__).with_name("runtime")
VENDORED = {
    "expressions": ("acorn", "luxon", "jmespath", "md5", "jssha", "titlecase", "transliteration"),
    "code": ("luxon", "jmespath"),
}
SCRIPTS = {
    "expressions": (
        *("faults", "bytes", "extensions", "strings", "numbers", "arrays", "objects", "dates", "functions"),
        *("rewrite", "data", "globals", "harden", "expressions"),
    ),
    "code": ("faults", "bytes", "extensions", "arrays", "functions", "data", "node_globals", "outputs", "code"),
}


def runtime(kind: str) -> str:
    """One script: the third parties' files, each with a CommonJS module around it, then ours, which get them all."""
    parts = ["(() => { const convoq = {}, vendor = {};"]
    for name in VENDORED[kind]:
        source = (RUNTIME / "vendor" / f"{name}.js").read_text()
        result = f"typeof {name} === 'undefined' ? module.exports : {name}"
        module = f"(module) => (function (exports) {{ {source}\nreturn {result}; }})(module.exports)"
        parts.append(f"vendor.{name} = ({module})({{ exports: {{}} }});")
    names, given = ", ".join(VENDORED[kind]), ", ".join(f"vendor.{name}" for name in VENDORED[kind])
    for name in SCRIPTS[kind]:
        source = (RUNTIME / f"{name}.js").read_text()
        parts.append(f'((convoq, {names}) => {{ "use strict"; {source}\n}})(convoq, {given});')
    parts.append("})()")
    return "\n".join(parts)


def receive(connection: socket.socket, count: int) -> bytes:
    parts = bytearray()
    while len(parts) < count:
        part = connection.recv(min(count - len(parts), 1 << 20))
        if not part:
            os._exit(0)
        parts += part
    return bytes(parts)


def framed(content: bytes) -> bytes:
    return HEADER.pack(len(content)) + content


def confine(memory_bytes: int) -> None:
    """No core, no file written, nothing said; of memory no more than V8's heap and as much outside of it."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    status = Path("/proc/self/status")
    if status.exists():  # Linux; elsewhere the heap's own limit is all there is.
        used_kb = int(status.read_text().partition("VmData:")[2].split()[0])
        resource.setrlimit(resource.RLIMIT_DATA, (used_kb * 1024 + 2 * memory_bytes,) * 2)


def arm(timeout_s: float) -> None:
    signal.setitimer(signal.ITIMER_PROF, timeout_s)
    signal.setitimer(signal.ITIMER_REAL, timeout_s * WALL_FACTOR)


async def serve(connection: socket.socket, kind: str, memory_bytes: int, timeout_s: float) -> None:
    """In an event loop, where mini-racer evaluates without handing over to a thread of its own."""
    from py_mini_racer import init_mini_racer, mini_racer

    init_mini_racer(flags=["--single-threaded", f"--max-heap-size={memory_bytes >> 20}"])
    script = runtime(kind)
    confined = False
    while True:
        with mini_racer(asyncio.get_running_loop()) as engine:
            engine.eval(script)
            if not confined:
                confine(memory_bytes)
                confined = True
            connection.sendall(framed(b""))
            arm(0)
            while True:
                (count,) = HEADER.unpack(receive(connection, HEADER.size))
                request = receive(connection, count).decode()
                arm(timeout_s)
                answer = await answered(engine, request)
                if kind == "code":  # Each run has a V8 of its own; what the last one left behind ends with it, in time.
                    connection.sendall(framed(answer))
                    break
                arm(0)
                connection.sendall(framed(answer) + framed(b""))


async def answered(engine: Any, request: str) -> bytes:
    from py_mini_racer import JSEvalException, JSPromise

    try:
        found = engine.eval(f"__convoq({json.dumps(request)})")
        return str(await found if isinstance(found, JSPromise) else found).encode()
    except JSEvalException as error:
        return json.dumps({"error": {"message": str(error).strip().splitlines()[0]}}).encode()


if __name__ == "__main__":
    packages, kind, memory_bytes, timeout_s = sys.argv[1:]
    sys.path.append(packages)
    asyncio.run(serve(socket.socket(fileno=0), kind, int(memory_bytes), float(timeout_s)))
