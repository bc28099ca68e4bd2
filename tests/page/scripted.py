"""A server that speaks the chat wire by script: real HTTP, and every fault at the moment the test wants it."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from convoq.api.page import PageConfig, chat_page

Line = dict[str, Any]
TOKEN = "to ken/+&"


@dataclass(frozen=True, slots=True)
class Gate:
    """The answer waits here until the test calls `Server.open(name)`."""

    name: str


@dataclass(frozen=True, slots=True)
class Cut:
    """Every connection that reads is broken here, once."""


@dataclass(frozen=True, slots=True)
class Plain:
    """An answer that is no stream."""

    status: int
    body: object


@dataclass(frozen=True, slots=True)
class Join:
    """Joins the message's stream to that of execution number `to`."""

    to: int


Step = Line | Gate | Cut


def line(kind: str, content: str | None = None, run: int = 0, **more: object) -> Line:
    made: Line = {"type": kind, "metadata": {"nodeId": "agent", "nodeName": "AI Agent", "runIndex": run}, **more}
    return made if content is None else {**made, "content": content}


def words(*parts: str, run: int = 0) -> list[Step]:
    """One model call that says `parts`."""
    return [line("begin", run=run), *(line("item", part, run=run) for part in parts), line("end", run=run)]


@dataclass
class Execution:
    id: str
    lines: list[Line] = field(default_factory=list)
    cuts: set[int] = field(default_factory=set)
    done: bool = False
    stopped: bool = False
    changed: asyncio.Condition = field(default_factory=asyncio.Condition)

    def ready(self, at: int) -> bool:
        """Whether a reader that has seen `at` lines has anything to do."""
        return self.done or at < len(self.lines) or at in self.cuts

    async def add(self, made: Line) -> None:
        async with self.changed:
            self.lines.append({**made, "seq": len(self.lines)})
            self.changed.notify_all()


class Server:
    """`answers[chatInput]` is what a message gets: a stream's steps, a `Plain` or a `Join`. `requests` is what came."""

    def __init__(self, config: PageConfig) -> None:
        self.config = config
        self.answers: dict[str, Sequence[Step] | Plain | Join] = {}
        self.previous: list[Line] = []
        self.gone: str = ""  # if set, the reason with which resuming is refused
        self.failing = 0  # so many resume requests get a 503 first
        self.overlap = 0  # so many lines that were seen are sent again on a resume
        self.stoppable = True
        self.requests: list[dict[str, Any]] = []
        self.resumed: list[int] = []
        self.executions: dict[str, Execution] = {}
        self.opened: set[str] = set()
        self.base = ""
        self._tasks: set[asyncio.Task[None]] = set()
        self._loop: asyncio.AbstractEventLoop | None = None

    def open(self, gate: str) -> None:
        assert self._loop is not None
        asyncio.run_coroutine_threadsafe(self._open(gate), self._loop).result(5)

    async def _open(self, gate: str) -> None:
        self.opened.add(gate)
        for execution in self.executions.values():
            async with execution.changed:
                execution.changed.notify_all()

    def app(self) -> Starlette:
        return Starlette(
            routes=[
                Route("/host", self._host),
                Route("/base/webhook/demo/chat", self._page, methods=["GET"]),
                Route("/base/webhook/demo/chat", self._message, methods=["POST"]),
                Route("/base/executions/{id}/stream", self._resume, methods=["GET"]),
                Route("/base/executions/{id}/stop", self._stop, methods=["POST"]),
            ]
        )

    async def _host(self, request: Request) -> Response:
        """A site that embeds the chat."""
        return HTMLResponse(f'<link rel="icon" href="data:,"><iframe src="{self.config.webhook_url}"></iframe>')

    async def _page(self, request: Request) -> Response:
        return chat_page(self.config).answer(request)

    async def _message(self, request: Request) -> Response:
        self._loop = asyncio.get_running_loop()
        body = await request.json()
        self.requests.append(
            {**body, "key": request.headers.get("idempotency-key"), "accept": request.headers["accept"]}
        )
        if body["action"] == "loadPreviousSession":
            return JSONResponse({"data": self.previous})
        script = self.answers[body["chatInput"]]
        if isinstance(script, Plain):
            return JSONResponse(script.body, script.status)
        if isinstance(script, Join):
            return self._stream(list(self.executions.values())[script.to], 0)
        execution = Execution(f"exec {len(self.executions)}")
        self.executions[execution.id] = execution
        task = asyncio.create_task(self._play(execution, script))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return self._stream(execution, 0)

    async def _play(self, execution: Execution, script: Sequence[Step]) -> None:
        for step in script:
            if isinstance(step, Gate):
                async with execution.changed:
                    await execution.changed.wait_for(partial(self._may_pass, execution, step))
            if execution.stopped:
                await execution.add(line("error", "Stopped by the user", code="stopped"))
                await execution.add(line("end"))
                break
            if isinstance(step, Cut):
                execution.cuts.add(len(execution.lines))
            elif not isinstance(step, Gate):
                await execution.add(step)
        async with execution.changed:
            execution.done = True
            execution.changed.notify_all()

    def _may_pass(self, execution: Execution, gate: Gate) -> bool:
        return gate.name in self.opened or execution.stopped

    def _stream(self, execution: Execution, start: int) -> Response:
        headers = {"X-Execution-Id": execution.id, "X-Stream-Token": TOKEN}
        return StreamingResponse(self._lines(execution, start), media_type="application/x-ndjson", headers=headers)

    async def _lines(self, execution: Execution, at: int) -> AsyncIterator[bytes]:
        yield b'{"type":"keepalive"}\n{"type":"hologram","content":"unknown"}\n'
        while True:
            async with execution.changed:
                await execution.changed.wait_for(partial(execution.ready, at))
            if at in execution.cuts:
                execution.cuts.discard(at)
                raise ConnectionAbortedError  # after the response has begun: uvicorn breaks the connection
            if at == len(execution.lines):
                return
            raw = json.dumps(execution.lines[at], ensure_ascii=False).encode() + b"\n"
            yield raw[:9]  # lines may come in pieces
            yield raw[9:]
            at += 1

    async def _resume(self, request: Request) -> Response:
        execution = self.executions[request.path_params["id"]]
        if request.query_params["token"] != TOKEN:
            return JSONResponse({"message": "wrong token"}, 403)
        after = int(request.query_params["after"])
        self.resumed.append(after)
        if self.gone:
            return JSONResponse({"code": "gone", "message": self.gone}, 410)
        if self.failing > 0:
            self.failing -= 1
            return JSONResponse({"message": "not yet"}, 503)
        if execution.done and after + 1 == len(execution.lines):
            return Response(status_code=204)
        return self._stream(execution, max(0, after + 1 - self.overlap))

    async def _stop(self, request: Request) -> Response:
        if not self.stoppable:
            return JSONResponse({"message": "no such route"}, 404)
        execution = self.executions[request.path_params["id"]]
        if request.query_params["token"] != TOKEN:
            return JSONResponse({"message": "wrong token"}, 403)
        async with execution.changed:
            execution.stopped = True
            execution.changed.notify_all()
        return JSONResponse({"status": "stopped"})


DEMO = PageConfig(
    title="Harbour desk",
    subtitle="Ask anything about berths and tides",
    placeholder="Ask a question",
    webhook_url="/base/webhook/demo/chat",
    initial_messages=("Good morning.", "What can I look up for you?"),
)


@contextmanager
def serve(**changes: Any) -> Iterator[Server]:
    """The scripted server on a free port of the loopback; `changes` are those to `DEMO`."""
    server = Server(replace(DEMO, **changes))
    running = uvicorn.Server(uvicorn.Config(server.app(), log_level="critical", timeout_graceful_shutdown=1))
    with socket.create_server(("127.0.0.1", 0)) as listening:
        server.base = f"http://127.0.0.1:{listening.getsockname()[1]}"
        thread = threading.Thread(target=running.run, kwargs={"sockets": [listening]}, name="scripted")
        thread.start()
        try:
            yield server
        finally:
            running.should_exit = True
            thread.join(10)
            assert not thread.is_alive(), "the scripted server did not stop"
