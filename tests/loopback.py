"""What the model servers of bench and chaos have in common: HTTP on raw asyncio, so that a server costs little."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"

Answer = Callable[[bytes, asyncio.StreamWriter], Awaitable[None]]
"""Writes the answer to a request's body."""


async def serve(port: int, answer: Answer) -> None:
    """Answer the requests of each connection one after the other, until cancelled."""

    async def connection(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = re.search(rb"content-length: *(\d+)", head, re.I)
                await answer(await reader.readexactly(int(length[1])) if length else b"", writer)
        except (asyncio.IncompleteReadError, OSError):
            pass  # the client has closed its connection, or is dead
        finally:
            writer.close()

    server = await asyncio.start_server(connection, "127.0.0.1", port, backlog=1024)
    async with server:
        await server.serve_forever()
