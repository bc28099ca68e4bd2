"""A loopback model server that answers what a test tells it to."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import aiohttp
from aiohttp import web

Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass
class ModelServer:
    """`answers` are used in turn, the last one again and again. `gone` is set when a client has left."""

    answers: Sequence[Answer]
    url: str = ""
    requests: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    connections: set[object] = field(default_factory=set)
    gone: asyncio.Event = field(default_factory=asyncio.Event)

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.requests.append(await request.json())
        self.headers.append(dict(request.headers))
        self.connections.add(request.transport)
        try:
            return await self.answers[min(len(self.requests), len(self.answers)) - 1](request)
        except (asyncio.CancelledError, ConnectionError):
            self.gone.set()
            raise


@asynccontextmanager
async def model_server(*answers: Answer) -> AsyncIterator[ModelServer]:
    server = ModelServer(answers)
    app = web.Application()
    app.router.add_post("/{path:.*}", server.handle)
    runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    server.url = f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
    try:
        yield server
    finally:
        await runner.cleanup()


@asynccontextmanager
async def http_client() -> AsyncIterator[Callable[[], aiohttp.ClientSession]]:
    async with aiohttp.ClientSession() as session:
        yield lambda: session


def replies(status: int, body: object, **headers: str) -> Answer:
    async def answer(request: web.Request) -> web.StreamResponse:
        text = body if isinstance(body, str) else json.dumps(body)
        kind = "text/html" if text.startswith("<") else "application/json"
        return web.Response(status=status, text=text, content_type=kind, headers=headers)

    return answer


def streams(*pieces: bytes, then: str = "end", content_type: str = "text/event-stream") -> Answer:
    """The pieces, each in a chunk of its own; `then` the body ends, the connection is cut ("cut") or hangs ("hang")."""

    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": content_type})
        await response.prepare(request)
        for piece in pieces:
            await response.write(piece)
            await asyncio.sleep(0)
        if then == "hang":
            await asyncio.Event().wait()
        if then == "cut":
            assert request.transport is not None
            request.transport.close()
        return response

    return answer


async def silence(request: web.Request) -> web.StreamResponse:
    """The request is taken, and that was all."""
    await asyncio.Event().wait()
    raise AssertionError


def event(**chunk: Any) -> bytes:
    return b"data: " + json.dumps(chunk, ensure_ascii=False).encode() + b"\n\n"


def delta(content: str | None = None, finish: str | None = None, **more: Any) -> bytes:
    """One event of a stream with one choice; `more` goes into its delta."""
    piece = {**({} if content is None else {"content": content}), **more}
    return event(id="c", choices=[{"index": 0, "delta": piece, "finish_reason": finish}])


USAGE = event(id="c", choices=[], usage={"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10})
DONE = b"data: [DONE]\n\n"
