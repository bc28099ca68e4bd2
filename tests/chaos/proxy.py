"""A TCP proxy in front of the suite's Redis: it can cut, refuse, stall and delay."""

from __future__ import annotations

import asyncio
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager

READ_BYTES = 64 << 10


class Proxy:
    """Listens on a port of its own, by TLS where it is given a context. The faults apply to both directions of all
    connections. After `replies_to_pass` pieces of replies the next is lost, and every connection is reset, once."""

    def __init__(self, upstream_port: int, tls: ssl.SSLContext | None = None) -> None:
        self.port = 0
        self._tls = tls
        self.delay_s = 0.0
        self.refuses = False
        self.replies_to_pass: int | None = None
        self._upstream_port = upstream_port
        self._flows = asyncio.Event()
        self._flows.set()
        self._writers: set[asyncio.StreamWriter] = set()
        self._serving: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, backlog=1024, ssl=self._tls)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        assert self._server is not None
        self._server.close()
        self.flow()
        self.cut()
        await asyncio.gather(*self._serving)

    def cut(self) -> None:
        """Reset every connection that there is."""
        for writer in self._writers:
            writer.transport.abort()

    def stall(self) -> None:
        """Nothing passes any more, and nobody is told."""
        self._flows.clear()

    def flow(self) -> None:
        self._flows.set()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)
        try:
            if self.refuses:
                raise ConnectionRefusedError
            server_reader, server_writer = await asyncio.open_connection("127.0.0.1", self._upstream_port)
        except OSError:
            writer.transport.abort()
            return
        both = {writer, server_writer}
        self._writers |= both
        try:
            await asyncio.gather(self._pump(reader, server_writer), self._pump(server_reader, writer, replies=True))
        finally:
            self._writers -= both
            for one in both:
                one.transport.abort()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, replies: bool = False) -> None:
        try:
            while data := await reader.read(READ_BYTES):
                await self._flows.wait()
                if replies and self.replies_to_pass is not None:
                    self.replies_to_pass -= 1
                    if self.replies_to_pass < 0:
                        self.replies_to_pass = None
                        self.cut()
                if self.delay_s:
                    await asyncio.sleep(self.delay_s)
                writer.write(data)
                await writer.drain()
        except OSError:
            pass  # one of the two is gone: so is the other, below
        writer.transport.abort()


class ProxyThread:
    """A proxy for tests that have no event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, proxy: Proxy) -> None:
        self._loop = loop
        self._proxy = proxy
        self.port = proxy.port

    def cut(self) -> None:
        self._loop.call_soon_threadsafe(self._proxy.cut)

    def down(self) -> None:
        """Cut, and let nobody in."""
        self._proxy.refuses = True
        self.cut()

    def up(self) -> None:
        self._proxy.refuses = False


@contextmanager
def proxy_thread(upstream_port: int) -> Iterator[ProxyThread]:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="proxy", daemon=True)
    thread.start()

    async def started() -> Proxy:
        proxy = Proxy(upstream_port)
        await proxy.start()
        return proxy

    proxy = asyncio.run_coroutine_threadsafe(started(), loop).result(10)
    try:
        yield ProxyThread(loop, proxy)
    finally:
        asyncio.run_coroutine_threadsafe(proxy.stop(), loop).result(10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        loop.close()
