"""What one client, or one answer, may cost the others."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from convoq.models.mock import HELP
from tests.api.serving import serving
from tests.models.server import DONE, delta, streams
from tests.stack import Process, Stack, chat_workflow, until

CLIENTS = 8
PIECE = "x" * 20_000
PIECES = 150


@pytest.fixture(scope="module")
def narrow(product: Stack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """The same product by an API that buffers little, and a worker of its own whose answers may be 2 kB."""
    env = {"CONVOQ_QUEUE": "narrow", "CONVOQ_CLIENT_BUFFER_BYTES": "65536"}
    stack = Stack(tmp_path_factory.mktemp("narrow"), product.redis_url, env)
    try:
        stack.start_api()
        stack.start_worker(CONVOQ_STREAM_MAX_BYTES="2048")
        stack.wait_ready(workers=3)
        yield stack
    finally:
        stack.stop()


def resident_bytes(process: Process) -> int:
    status = Path(f"/proc/{process.popen.pid}/status").read_text()
    line = next(line for line in status.splitlines() if line.startswith("VmRSS"))
    return int(line.split()[1]) * 1024


def test_an_answer_that_is_too_large_ends_with_an_error(narrow: Stack) -> None:
    narrow.install(chat_workflow("talkative"))
    reply = narrow.say("talkative", "hello", "large")
    *before, error, end = reply.lines
    assert (error["type"], error["code"], end["type"]) == ("error", "stream_too_large", "end")
    assert "2048 bytes" in error["content"] and "CONVOQ_STREAM_MAX_BYTES" in error["content"]
    assert [line["seq"] for line in reply.lines] == list(range(len(before) + 2))
    assert HELP.startswith(reply.text)
    assert narrow.execution(reply.headers["x-execution-id"])["error"]["code"] == "stream_too_large"
    assert narrow.say("talkative", "my name is Ada", "large").text == "Nice to meet you, Ada."


def flood(stack: Stack, session: str) -> socket.socket:
    """A client that has asked for three megabytes, and would hold little of them itself."""
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.settimeout(20)
    client.connect(("127.0.0.1", stack.port))
    body = json.dumps({"chatInput": "flood", "sessionId": session}).encode()
    head = f"POST /webhook/flood HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {len(body)}\r\n\r\n"
    client.sendall(head.encode() + body)
    return client


def read_all(client: socket.socket) -> bytes:
    answer = bytearray()
    with client:
        while part := client.recv(1 << 20):
            answer += part
    return bytes(answer)


def test_slow_clients_cost_little_and_lose_nothing(product: Stack) -> None:
    with serving(streams(*[delta(PIECE)] * PIECES, delta("", "stop"), DONE)) as server:
        model = {
            "type": "@n8n/n8n-nodes-langchain.lmChatOpenAi",
            "typeVersion": 1.2,
            "parameters": {"options": {"baseURL": server.url}},
        }
        workflow = chat_workflow("flood", model=model)
        del workflow["connections"]["Memory"]  # which would refuse a turn of three megabytes
        product.install(workflow)
        api = product.processes[0]
        for number in range(CLIENTS):
            read_all(flood(product, f"quick {number}"))
        before = resident_bytes(api)
        clients = [flood(product, f"slow {number}") for number in range(CLIENTS)]
        with product.redis() as redis:
            until(lambda: len(server.requests) == 2 * CLIENTS and not redis.zcard("convoq:lease"), "the end of all")
        assert resident_bytes(api) - before < CLIENTS * 1_000_000
        for client in clients:
            answer = read_all(client)
            assert answer.count(PIECE.encode()) == PIECES
            assert b'"type":"error"' not in answer
            assert b'"type":"end"' in answer
