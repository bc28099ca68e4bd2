"""What may be found at a Redis address: nothing yet, silence, something else, TLS."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.stack import free_port

CERTIFICATE = Path(__file__).parent / "certificate.pem"
"""Key and certificate for 127.0.0.1, signed by itself."""
Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@contextmanager
def listening(serve: Serve, context: ssl.SSLContext | None = None) -> Iterator[int]:
    """A server on the port that is given, in a thread of its own."""
    port, loop = free_port(), asyncio.new_event_loop()
    started = threading.Event()
    done = asyncio.Event()

    async def run() -> None:
        server = await asyncio.start_server(serve, "127.0.0.1", port, ssl=context)
        started.set()
        await done.wait()
        server.close()
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()

    thread = threading.Thread(target=loop.run_until_complete, args=(run(),), daemon=True)
    thread.start()
    assert started.wait(10)
    try:
        yield port
    finally:
        loop.call_soon_threadsafe(done.set)
        thread.join(10)
        loop.close()


@contextmanager
def silent(met: Callable[[], None] = lambda: None) -> Iterator[int]:
    """Takes connections and says nothing. `met` is told of each."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        met()
        with contextlib.suppress(OSError):
            await reader.read(-1)
        writer.close()

    with listening(serve) as port:
        yield port


@contextmanager
def web_server() -> Iterator[int]:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            await reader.readline()
            writer.write(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
            await writer.drain()
        writer.close()

    with listening(serve) as port:
        yield port


@contextmanager
def tls_before(server_port: int) -> Iterator[int]:
    """TLS, with a certificate that nobody knows, in front of a server."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTIFICATE)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection("127.0.0.1", server_port)

        async def copy(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
            with contextlib.suppress(OSError):
                while data := await source.read(1 << 16):
                    target.write(data)
                    await target.drain()
            target.close()

        await asyncio.gather(copy(reader, back), copy(there, writer))

    with listening(serve, context) as port:
        yield port
