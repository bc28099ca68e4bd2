"""A server on the loopback that answers as a test says, and remembers what it was asked."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from ipaddress import ip_address

from aiohttp import web
from aiohttp.abc import AbstractResolver, ResolveResult

from convoq.egress.rules import Rules
from convoq.egress.session import Egress

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass
class Asked:
    method: str
    path: str
    query: str
    headers: Mapping[str, str]
    body: bytes


@dataclass
class Server:
    handler: Handler
    port: int = 0
    asked: list[Asked] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def last(self) -> Asked:
        return self.asked[-1]

    async def handle(self, request: web.Request) -> web.StreamResponse:
        headers = {name.lower(): value for name, value in request.headers.items()}
        path, _, query = request.raw_path.partition("?")
        self.asked.append(Asked(request.method, path, query, headers, await request.read()))
        return await self.handler(request)


@asynccontextmanager
async def serving(handler: Handler) -> AsyncIterator[Server]:
    server = Server(handler)
    app = web.Application(client_max_size=1 << 26)
    app.router.add_route("*", "/{path:.*}", server.handle)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    server.port = runner.addresses[0][1]
    try:
        yield server
    finally:
        await runner.cleanup()


def says(body: object = None, status: int = 200, text: str | None = None, **headers: str) -> Handler:
    """JSON, or text."""

    async def handler(request: web.Request) -> web.StreamResponse:
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        if text is not None:
            return web.Response(status=status, body=text.encode(), headers={"content-type": "text/plain", **given})
        return web.json_response(body, status=status, headers=given)

    return handler


class Names(AbstractResolver):
    """A resolver that knows these names; the addresses of one may be a row of answers, given in turn."""

    def __init__(self, names: Mapping[str, list[list[str]]], port: int = 0) -> None:
        self.names = names
        self.port = port
        self.asked: list[str] = []

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        self.asked.append(host)
        if host not in self.names:
            raise OSError(f"{host} is not known")
        rows = self.names[host]
        row = rows.pop(0) if len(rows) > 1 else rows[0]
        return [
            ResolveResult(
                hostname=host,
                host=address,
                port=self.port or port,
                family=socket.AF_INET if ip_address(address).version == 4 else socket.AF_INET6,
                proto=0,
                flags=socket.AI_NUMERICHOST,
            )
            for address in row
        ]

    async def close(self) -> None:
        pass


@asynccontextmanager
async def egress(allow: str = "127.0.0.1", names: Names | None = None, **more: int) -> AsyncIterator[Egress]:
    resolver = {} if names is None else {"resolver": lambda: names}
    made = Egress(Rules.parse(allow), **more, **resolver)  # type: ignore[arg-type]
    try:
        yield made
    finally:
        await made.close()
