"""Everything that can pile up has a bound, and who meets it is told."""

from __future__ import annotations

import asyncio
import json
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from aiohttp import web

from tests.delivery.model import model_thread, model_workflow
from tests.models.server import ModelServer, delta, streams
from tests.stack import Stack, chat_workflow, until

MAX_WAITING = 3
MAX_BYTES = 200_000
LONG = "x" * 1000


@pytest.fixture(scope="module")
def stack(redis_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    env = {
        "CONVOQ_MAX_WAITING": str(MAX_WAITING),
        "CONVOQ_STREAM_MAX_BYTES": str(MAX_BYTES),
        "CONVOQ_STREAM_MAX_CHUNKS": "500",
        "CONVOQ_CLIENT_BUFFER_BYTES": "4096",
    }
    stack = Stack(tmp_path_factory.mktemp("bounds"), f"{redis_url}/5", env)
    try:
        stack.start_api()
        stack.start_worker()
        stack.wait_ready()
        stack.install(chat_workflow("many", delay_ms=100))
        yield stack
    finally:
        stack.stop()


def test_too_many_waiting_is_503_with_retry_after(stack: Stack) -> None:
    with ExitStack() as clients:
        first = clients.enter_context(stack.live("many", "hello", "w"))
        first.until_item()
        waiting = [clients.enter_context(stack.live("many", "my name is Ada", "w")) for _ in range(MAX_WAITING)]
        refused = stack.say("many", "me too", "another session")
        assert (refused.status, refused.json["code"]) == (503, "overloaded")
        assert int(refused.headers["retry-after"]) >= 1
        assert "CONVOQ_MAX_WAITING" in refused.json["message"]
        for live in waiting:
            stack.request("POST", f"/executions/{live.execution_id}/stop?token={live.headers['x-stream-token']}")
        assert stack.say("many", "my name is Ada", "another session").text == "Nice to meet you, Ada."


@pytest.mark.parametrize(("pieces", "size"), [(600, 1), (300, 1000)])
def test_a_stream_over_its_bound_ends_with_an_error(stack: Stack, pieces: int, size: int) -> None:
    with model_thread(streams(*[delta("x" * size)] * pieces, delta(None, "stop"))) as model:
        stack.install(model_workflow(f"large{size}", model))
        with stack.live(f"large{size}", "go on") as live:
            *_, error, end = live.chunks()
        assert (error["type"], error["code"], end["type"]) == ("error", "stream_too_large", "end"), error
        assert "CONVOQ_STREAM_MAX_BYTES" in error["content"]
    assert stack.execution(live.execution_id)["error"]["code"] == "stream_too_large"
    turn = stack.remembered(f"large{size}")
    assert turn in ([], [("user", "go on"), ("assistant", "x" * pieces * size)])  # the model may have been faster
    with stack.redis() as client:
        assert (client.memory_usage(f"convoq:exec:{live.execution_id}:log") or 0) < 2 * MAX_BYTES


@pytest.fixture
def chatty() -> Iterator[ModelServer]:
    """150 kB in 150 pieces, a millisecond apart."""

    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        for index in range(150):
            await response.write(delta(f"{index} {LONG} "))
            await asyncio.sleep(0.001)
        await response.write(delta(None, "stop"))
        return response

    with model_thread(answer) as server:
        yield server


def test_a_stalled_reader_costs_no_other_anything_and_loses_nothing(stack: Stack, chatty: ModelServer) -> None:
    """It reads nothing until the answer is in the log; its API process holds a bounded part of it."""
    stack.install(model_workflow("chatty", chatty))
    with socket.socket() as raw:
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        raw.connect(("127.0.0.1", stack.port))
        body = json.dumps({"sessionId": "stalled", "chatInput": "go on"}).encode()
        raw.sendall(
            b"POST /webhook/chatty HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\nconnection: close\r\n"
            b"content-length: %d\r\n\r\n%b" % (len(body), body)
        )
        until(lambda: chatty.requests, "the model was asked")
        asked = time.monotonic()
        with stack.live("chatty", "go on", "other") as other:
            assert len(other.text()) > 150 * len(LONG)
        assert time.monotonic() - asked < 5
        with stack.redis() as client:
            until(lambda: not client.zcard("convoq:lease"), "both answers are complete")
        received = b""
        while data := raw.recv(65536):
            received += data
    head, _, chunked = received.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200")
    lines = [json.loads(line) for line in _dechunk(chunked).splitlines()]
    numbered = [line["seq"] for line in lines if "seq" in line]
    assert numbered == list(range(152))
    assert lines[-1]["type"] == "end"


def _dechunk(data: bytes) -> bytes:
    body = b""
    while data:
        size, _, data = data.partition(b"\r\n")
        body += data[: int(size, 16)]
        data = data[int(size, 16) + 2 :]
    return body
