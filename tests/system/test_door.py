"""What strangers can make the API hold: heads, bodies and connections without an end, over real sockets."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from http.client import HTTPResponse
from pathlib import Path

import pytest

from tests.stack import Process, Stack, chat_workflow, until

ORIGIN = "https://shop.example"
CHAT = "POST /webhook/door HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
LIMIT = 16 << 10
ATTACKERS = 1500


@pytest.fixture(scope="module")
def strict(product: Stack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """The same product by an API that is soon out of patience and room."""
    env = {
        "CONVOQ_HEAD_TIMEOUT_S": "1.5",
        "CONVOQ_BODY_TIMEOUT_S": "2",
        "CONVOQ_MAX_BODIES_BYTES": "100000",
    }
    with serving(product, tmp_path_factory.mktemp("strict"), **env) as stack:
        yield stack


@pytest.fixture(scope="module")
def patient(product: Stack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """Another with room for little, but time."""
    with serving(product, tmp_path_factory.mktemp("patient"), CONVOQ_MAX_BODIES_BYTES="100000") as stack:
        yield stack


@contextmanager
def serving(product: Stack, folder: Path, **env: str) -> Iterator[Stack]:
    stack = Stack(folder, product.redis_url, env)
    product.install(chat_workflow("door"))
    try:
        stack.start_api()
        stack.wait_ready()
        yield stack
    finally:
        stack.stop()


def connect(stack: Stack) -> socket.socket:
    return socket.create_connection(("127.0.0.1", stack.port), timeout=20)


def answer(client: socket.socket) -> tuple[int, dict[str, str], dict[str, str]]:
    """Status, headers and JSON body; the connection must be closed by the other side, and not by a reset."""
    data = b""
    while part := client.recv(65536):
        data += part
    head, _, body = data.partition(b"\r\n\r\n")
    status, *lines = head.decode().split("\r\n")
    headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
    return int(status.split()[1]), headers, json.loads(body)


def push(client: socket.socket, piece: bytes, megabytes: int) -> None:
    """Send it again and again, until the other side has had enough."""
    try:
        for _ in range((megabytes << 20) // len(piece)):
            client.sendall(piece)
    except OSError:
        return
    raise AssertionError(f"all {megabytes} MB were taken")


def resident_mb(process: Process) -> float:
    status = Path(f"/proc/{process.popen.pid}/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith("VmRSS")).split()[1]) / 1024


def message(text: str = "What is 2 * 3?", size: int = 0) -> bytes:
    body = json.dumps({"chatInput": text, "sessionId": "door", "more": "x" * size}).encode()
    return f"{CHAT}Connection: close\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


def half(stack: Stack, size: int) -> socket.socket:
    client = connect(stack)
    client.sendall(f"{CHAT}Content-Length: {2 * size}\r\n\r\n".encode() + b"x" * size)
    return client


# --- heads -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [LIMIT, 200_000])
def test_a_large_head(strict: Stack, size: int) -> None:
    with connect(strict) as client:
        client.sendall(f"{CHAT}Origin: {ORIGIN}\r\nX-Large: {'x' * size}\r\nContent-Length: 0\r\n\r\n".encode())
        status, headers, error = answer(client)
    assert (status, error["code"], headers["connection"]) == (431, "head_too_large", "close")
    assert "CONVOQ_MAX_HEADER_BYTES" in error["message"]
    assert headers["access-control-allow-origin"] == ORIGIN


def test_a_head_as_large_as_is_allowed(strict: Stack) -> None:
    assert strict.get("/healthz", X_Large="x" * (LIMIT - 300)).status == 200


@pytest.mark.parametrize(
    ("start", "piece"),
    [
        (CHAT, "X-A: " + "y" * 8000 + "\r\n"),
        (CHAT + "X-A: ", "y" * 65536),
        ("GET /", "y" * 65536),
        ("", "\r\n" * 30000),
        (CHAT + "Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\n0\r\n", "X-A: " + "y" * 8000 + "\r\n"),
        (CHAT + "Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\n0\r\nX-A: ", "y" * 65536),
        (CHAT + "Transfer-Encoding: chunked\r\n\r\n1;a=", "y" * 65536),
    ],
    ids=["lines", "one line", "address", "blank lines", "trailers", "one trailer", "chunk extension"],
)
def test_a_head_without_an_end_costs_nothing(patient: Stack, start: str, piece: str) -> None:
    api = patient.processes[0]
    before = resident_mb(api)
    with connect(patient) as client:
        client.sendall(start.encode())
        push(client, piece.encode(), 200)
        assert resident_mb(api) < before + 20
    assert patient.get("/healthz").status == 200


def test_the_refusal_can_be_read_by_who_sends_on(patient: Stack) -> None:
    with connect(patient) as client:
        client.sendall(CHAT.encode())
        push(client, f"X-A: {'y' * 8000}\r\n".encode(), 200)
        assert client.recv(100).startswith(b"HTTP/1.1 431 Request Header Fields Too Large\r\n")


@pytest.mark.parametrize("name", ["Upgrade", "upgrade", "UPGRADE"])
def test_who_offers_another_protocol_is_answered_by_this_one(patient: Stack, name: str) -> None:
    """As Java's HTTP client does."""
    offer = {"Connection": "Upgrade, HTTP2-Settings", name: "h2c", "HTTP2-Settings": "AAEAAEAAAAIAAAABAAMAAABk"}
    text = "my name is Ada\r\nUpgrade: me"
    reply = patient.request("POST", "/webhook/door", {"chatInput": text, "sessionId": name}, **offer)
    assert (reply.status, reply.text) == (200, "Nice to meet you, Ada."), reply.body
    assert patient.remembered("door", name)[0] == ("user", text)
    assert "pgrade" not in patient.processes[0].log.read_text()


# --- time ------------------------------------------------------------------------------------------------------------


def test_a_head_that_does_not_come_to_its_end(strict: Stack) -> None:
    with connect(strict) as client:
        client.sendall(CHAT.encode())
        status, _, error = answer(client)
    assert (status, error["code"]) == (408, "request_timeout")
    assert "1.5 s" in error["message"] and "CONVOQ_HEAD_TIMEOUT_S" in error["message"]


def test_a_head_that_comes_byte_by_byte_has_no_more_time(strict: Stack) -> None:
    with connect(strict) as client:
        begun = time.monotonic()
        client.settimeout(0.05)
        data = b""
        for byte in (CHAT + "X-A: " + "y" * 1000).encode():
            try:
                client.sendall(bytes([byte]))
                data = client.recv(1000)
            except TimeoutError:
                continue
            break
        assert data.startswith(b"HTTP/1.1 408 ")
        assert 1.4 < time.monotonic() - begun < 10


def test_a_connection_that_says_nothing_is_closed(strict: Stack) -> None:
    with connect(strict) as client:
        assert client.recv(1) == b""


def test_a_body_that_does_not_come_to_its_end(strict: Stack) -> None:
    with connect(strict) as client:
        client.sendall(f"{CHAT}Origin: {ORIGIN}\r\nContent-Length: 100\r\n\r\n".encode() + b'{"chatInput": "hel')
        status, headers, error = answer(client)
    assert (status, error["code"]) == (408, "request_timeout")
    assert "2 s" in error["message"] and "CONVOQ_BODY_TIMEOUT_S" in error["message"]
    assert headers["access-control-allow-origin"] == ORIGIN


def test_an_answer_may_take_longer_than_a_request(strict: Stack) -> None:
    strict.install(chat_workflow("unhurried", delay_ms=300))
    assert strict.say("unhurried", "my name is Ada").text == "Nice to meet you, Ada."


# --- bodies ----------------------------------------------------------------------------------------------------------


def test_bodies_under_way_have_a_limit_and_ordinary_messages_pass(patient: Stack) -> None:
    with half(patient, 60_000) as first, half(patient, 50_000) as second:
        until(lambda: refused(patient), "no room for another large body")
        assert patient.say("door", "What is 2 * 3?").text.endswith("6.")
        first.close()
        until(lambda: not refused(patient), "room for a large body again")
        second.close()


def refused(stack: Stack) -> bool:
    """Whether there is no room for one more large body."""
    with connect(stack) as client:
        client.sendall(message(size=60_000))
        status = client.recv(12)
    assert status in (b"HTTP/1.1 200", b"HTTP/1.1 503")
    return status.endswith(b"503")


def test_no_room_is_a_503_that_says_when_to_come_again(patient: Stack) -> None:
    with ExitStack() as held:
        for _ in range(3):
            held.enter_context(half(patient, 40_000))
        with connect(patient) as client:
            client.sendall(message(size=90_000))
            status, headers, error = answer(client)
    assert (status, error["code"], headers["retry-after"]) == (503, "unavailable", "5")
    assert "100000 bytes" in error["message"] and "CONVOQ_MAX_BODIES_BYTES" in error["message"]


def test_an_early_answer_waits_for_the_request_and_the_connection_goes_on(product: Stack) -> None:
    """Nobody at that path: but who is still sending would not read it."""
    product.install(chat_workflow("door"))
    with connect(product) as client:
        head = "POST /webhook/nobody HTTP/1.1\r\nHost: x\r\nContent-Length: 500000\r\n\r\n"
        client.sendall(head.encode() + b"x" * 100_000)
        client.settimeout(0.2)
        with pytest.raises(TimeoutError):
            client.recv(1)
        client.settimeout(20)
        for request, status in ((b"x" * 400_000, 404), (message(), 200)):
            client.sendall(request)
            reply = HTTPResponse(client)
            reply.begin()
            assert (reply.status, bool(reply.read())) == (status, True)


def test_a_body_that_nobody_wants_is_not_taken_for_ever(product: Stack) -> None:
    product.install(chat_workflow("door"))
    api = product.processes[0]
    before = resident_mb(api)
    with connect(product) as client:
        client.sendall(f"{CHAT}Content-Length: {1 << 40}\r\n\r\n".encode())
        push(client, b"x" * 65536, 200)
        assert client.recv(100).startswith(b"HTTP/1.1 413 ")
    assert resident_mb(api) < before + 20


# --- connections -----------------------------------------------------------------------------------------------------


@pytest.fixture
def narrow(product: Stack, tmp_path: Path) -> Iterator[Stack]:
    product.install(chat_workflow("door-slow", delay_ms=400))
    with serving(product, tmp_path, CONVOQ_MAX_CONNECTIONS="6") as stack:
        yield stack


def test_connections_that_ask_nothing_give_way_to_those_that_do(narrow: Stack) -> None:
    with ExitStack() as idle:
        clients = [idle.enter_context(connect(narrow)) for _ in range(4)]
        halves = [idle.enter_context(half(narrow, 100)) for _ in range(4)]
        assert clients[0].recv(1) == b""
        for number in range(8):
            assert narrow.say("door", "What is 2 * 3?", f"n{number}").text.endswith("6.")
        assert [client.recv(1) for client in clients[:3]] == [b""] * 3
        halves[-1].sendall(b"x" * 100)  # it was never in the way
        assert halves[-1].recv(100).startswith(b"HTTP/1.1 422 ")


def test_answers_under_way_are_not_cut_for_newcomers(narrow: Stack) -> None:
    with ExitStack() as answers:
        lives = [answers.enter_context(narrow.live("door-slow", "my name is Ada", f"u{number}")) for number in range(6)]
        with connect(narrow) as client:
            client.sendall(message())
            status, headers, error = answer(client)
        assert (status, error["code"], headers["retry-after"]) == (503, "unavailable", "5")
        assert "CONVOQ_MAX_CONNECTIONS" in error["message"]
        assert {live.text() for live in lives} == {"Nice to meet you, Ada."}
    until(lambda: narrow.answers(), "room again")


@pytest.mark.slow
def test_half_bodies_from_everywhere(product: Stack, tmp_path: Path) -> None:
    """Others are answered meanwhile, the process stays below twice its size, and gives back what it took.

    On a quiet machine others wait less than half a second; here only that they are not locked out.
    """
    with serving(product, tmp_path) as stack:
        api = stack.processes[0]
        for number in range(10):
            stack.say("door", "hello", f"w{number}")
        idle = resident_mb(api)
        with ThreadPoolExecutor(1) as pool, ExitStack() as attack:
            asked = pool.submit(
                lambda: [stack.say("door", "What is 2 * 3?", f"p{number}").text[-2:] for number in range(100)]
            )
            for _ in range(ATTACKERS):
                client = attack.enter_context(connect(stack))
                try:
                    client.sendall(f"{CHAT}Content-Length: 1000000\r\n\r\n".encode() + b"x" * 600_000)
                except OSError:
                    pass  # it was told that there is no room
            assert asked.result(60) == ["6."] * 100
            assert resident_mb(api) < 2 * idle
        until(lambda: resident_mb(api) < 1.5 * idle, "the memory to be given back")
