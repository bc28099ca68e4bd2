"""Messages of one session that arrive shortly after each other, each on a connection of its own, are admitted in the
order in which they arrived: within one API process."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest

from tests.stack import Stack, chat_workflow

SESSIONS = 12
TEXTS = [f"message {number}" for number in range(8)]


def request(path: str, session: str, text: str) -> bytes:
    body = json.dumps({"chatInput": text, "sessionId": session}).encode()
    head = f"POST /webhook/{path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


def read_all(client: socket.socket) -> bytes:
    answer = b""
    while part := client.recv(65536):
        answer += part
    return answer


def burst(stack: Stack, path: str, session: str, gap_s: float) -> list[str]:
    """Send all, then read all: the texts in the order in which they were run."""
    with ExitStack() as connections:
        clients = [
            connections.enter_context(socket.create_connection(("127.0.0.1", stack.port), timeout=60)) for _ in TEXTS
        ]
        for client, text in zip(clients, TEXTS, strict=True):
            client.sendall(request(path, session, text))
            time.sleep(gap_s)  # nothing is waited for: this is the gap
        for client in clients:
            assert b'"type":"end"' in read_all(client)
    return [text for role, text in stack.remembered(path, session) if role == "user"]


@pytest.mark.parametrize("gap_ms", [1, 5, 20])
@pytest.mark.parametrize("fresh", [True, False], ids=["fresh chats", "one chat"])
def test_a_burst_is_admitted_in_the_order_of_arrival(product: Stack, gap_ms: int, fresh: bool) -> None:
    """`fresh`: the API has to look the chat up first. All sessions at the same time, so that it is busy, too."""
    paths = [f"arrive-{gap_ms}-{number if fresh else 'one'}" for number in range(SESSIONS)]
    for path in dict.fromkeys(paths):
        product.install(chat_workflow(path, window=10))

    def converse(number: int) -> Sequence[str]:
        return burst(product, paths[number], f"s{number}", gap_ms / 1000)

    with ThreadPoolExecutor(SESSIONS) as pool:
        assert list(pool.map(converse, range(SESSIONS))) == [TEXTS] * SESSIONS
