"""What a client can get wrong, each with its status, its code, and a message that names the culprit."""

from __future__ import annotations

import json
import socket
from typing import Any

import pytest

from tests.stack import Stack, chat_workflow, until

ORIGIN = "https://shop.example"
LONG = "x" * 100_001


def body(**parts: object) -> bytes:
    return json.dumps({"chatInput": "hello", "sessionId": "bad input", **parts}).encode()


def with_value(text: str) -> bytes:
    return b'{"chatInput": "hello", "more": ' + text.encode() + b"}"


BODIES: dict[str, tuple[bytes, int, str, str]] = {
    "empty": (b"", 422, "bad_body", "the body is empty"),
    "blank": (b" \r\n", 422, "bad_body", "the body is empty"),
    "cut off": (b'{"chatInput": "hel', 422, "bad_body", "Unterminated string"),
    "no quotes": (b"{chatInput: 1}", 422, "bad_body", "line 1 column 2"),
    "something after it": (b'{"chatInput": "hi"} {}', 422, "bad_body", "Extra data"),
    "array": (b'["hello"]', 422, "bad_body", "the body is an array, not a JSON object"),
    "string": (b'"hello"', 422, "bad_body", "string"),
    "number": (b"7", 422, "bad_body", "number"),
    "boolean": (b"true", 422, "bad_body", "boolean"),
    "null": (b"null", 422, "bad_body", "the body is null"),
    "not UTF-8": (b'{"chatInput": "\xff"}', 422, "bad_body", "0xff"),
    "NaN": (with_value("NaN"), 422, "bad_body", "NaN"),
    "Infinity": (with_value("[-Infinity]"), 422, "bad_body", "-Infinity"),
    "a number too large": (with_value('{"n": 1e999}'), 422, "bad_body", "'more.n': not a finite number"),
    "an integer too large": (with_value(str(1 << 64)), 422, "bad_body", "'18446744073709551616'"),
    "an integer too small": (with_value(str(-(1 << 63) - 1)), 422, "bad_body", "'-9223372036854775809'"),
    "an integer of 5000 digits": (with_value("9" * 5000), 422, "bad_body", "'99999"),
    "nested 200 deep": (with_value("[" * 200 + "]" * 200), 422, "bad_body", "nested deeper than"),
    "nested 100 000 deep": (with_value("[" * 100_000 + "]" * 100_000), 422, "bad_body", "nested"),
    "half a surrogate pair": (b'{"chatInput": "\\ud800"}', 422, "bad_body", "'chatInput': half of a surrogate"),
    "half a pair in a name": (b'{"chatInput": "x", "\\udc00": 1}', 422, "bad_body", "half of a surrogate"),
    "half a pair in the session": (body(sessionId="\ud800"), 422, "bad_body", "'sessionId': half of a surrogate"),
    "message is a number": (body(chatInput=1), 400, "bad_request", "chatInput is a number"),
    "message is an array": (body(chatInput=["hello"]), 400, "bad_request", "chatInput is an array"),
    "message is an object": (body(chatInput={}), 400, "bad_request", "chatInput is an object"),
    "message is false": (body(chatInput=False), 400, "bad_request", "chatInput is a boolean"),
    "message is null": (body(chatInput=None), 400, "bad_request", "chatInput is missing"),
    "message is empty": (body(chatInput=""), 400, "bad_request", "chatInput is missing or empty"),
    "message is blank": (body(chatInput=" \n\t"), 400, "bad_request", "chatInput is missing or empty"),
    "no message": (b'{"sessionId": "bad input"}', 400, "bad_request", "chatInput is missing"),
    "message is too long": (body(chatInput=LONG), 413, "body_too_large", "100001 characters, more than 100000"),
    "unknown action": (body(action="deleteAll"), 400, "bad_request", "'deleteAll'"),
    "action is an array": (body(action=["sendMessage"]), 400, "bad_request", "['sendMessage']"),
    "action is a number": (body(action=0), 400, "bad_request", "unknown action 0"),
    "session is a fraction": (
        body(sessionId=7.5),
        400,
        "bad_session",
        "sessionId is a number, not a string or a whole",
    ),
    "session is too large a number": (body(sessionId=1 << 64), 422, "bad_body", "'18446744073709551616'"),
    "session is false": (body(sessionId=False), 400, "bad_session", "sessionId is a boolean"),
    "session is an array": (body(sessionId=["a"]), 400, "bad_session", "sessionId is an array"),
    "session is an object": (body(sessionId={}), 400, "bad_session", "sessionId is an object"),
    "session is too long": (body(sessionId="s" * 257), 400, "bad_session", "257 characters, more than 256"),
    "session with a NUL": (body(sessionId="a\0b"), 400, "bad_session", "'a\\x00b' holds control characters"),
    "session with a line break": (body(sessionId="a\nb"), 400, "bad_session", "'a\\nb'"),
    "session with a C1 control": (body(sessionId="a\x85b"), 400, "bad_session", "'a\\x85b'"),
    "session with DEL": (body(sessionId="\x7f"), 400, "bad_session", "'\\x7f'"),
}


@pytest.mark.parametrize("case", BODIES)
def test_a_bad_body(product: Stack, case: str) -> None:
    data, status, code, culprit = BODIES[case]
    with product.redis() as client:
        before = client.dbsize()
        for accept in ("application/x-ndjson", "application/json"):
            reply = product.request("POST", "/webhook/support", data, Origin=ORIGIN, Accept=accept)
            assert (reply.status, reply.json["code"]) == (status, code)
            assert culprit in reply.json["message"]
            assert len(reply.json["message"]) < 300
            assert reply.headers["content-type"] == "application/json"
            assert reply.headers["access-control-allow-origin"] == ORIGIN
        assert client.dbsize() == before


GOOD: dict[str, tuple[bytes, str]] = {
    "the last of two equal names counts": (b'{"chatInput": "x", "chatInput": "What is 4 * 5?"}', "20."),
    "numbers at the limits": (body(chatInput="What is 4 * 5?", n=[(1 << 64) - 1, -(1 << 63), 1e308]), "20."),
    "nested 90 deep": (b'{"chatInput": "What is 4 * 5?", "more": ' + b"[" * 90 + b"]" * 90 + b"}", "20."),
    "as long as allowed": (body(chatInput="What is 4 * 5?".ljust(100_000, "!")), "20."),
    "a byte order mark": (b"\xef\xbb\xbf" + body(chatInput="What is 4 * 5?"), "20."),
    "any script, emoji, controls in the text": (body(chatInput="¿שלום?\0\x1b[31m\u202e👩‍👩‍👧 What is 4 * 5?"), "20."),
    "a session of 256 odd characters": (
        body(chatInput="What is 4 * 5?", sessionId="👩‍👧{}:*/%\u202e".ljust(256)),
        "20.",
    ),
    "fields that nobody knows": (body(chatInput="What is 4 * 5?", __proto__=1, metadata={"a": None}), "20."),
}


@pytest.mark.parametrize("case", GOOD)
def test_odd_but_good(product: Stack, case: str) -> None:
    data, answer = GOOD[case]
    reply = product.request("POST", "/webhook/support", data)
    assert reply.status == 200, reply.body
    assert reply.text == f"Based on the tools: Calculator returned {answer}"


@pytest.mark.parametrize("number", [7, 0, -1001234567890, (1 << 64) - 1])
def test_a_session_id_may_be_a_whole_number(product: Stack, number: int) -> None:
    """As ids of Telegram and WhatsApp are: the session is that of the same digits as text."""
    reply = product.request("POST", "/webhook/support", body(chatInput="my name is Ada", sessionId=number))
    assert (reply.status, reply.text) == (200, "Nice to meet you, Ada."), reply.body
    assert product.execution(reply.headers["x-execution-id"])["session"] == str(number)
    assert product.say("support", "What is my name?", str(number)).text == "Your name is Ada."


@pytest.mark.parametrize(
    ("header", "value", "culprit"),
    [
        ("Content_Type", "text/html", "'text/html'"),
        ("Content_Type", "multipart/form-data; boundary=x", "'multipart/form-data'"),
        ("Content_Encoding", "gzip", "'gzip'"),
    ],
)
def test_a_body_of_another_kind(product: Stack, header: str, value: str, culprit: str) -> None:
    reply = product.request("POST", "/webhook/support", body(), **{header: value})
    assert (reply.status, reply.json["code"]) == (422, "bad_body")
    assert culprit in reply.json["message"]


@pytest.mark.parametrize("chunked", [False, True])
def test_a_body_over_the_limit(product: Stack, chunked: bool) -> None:
    """Read from the socket: a client that has sent all must get the answer, whenever it was given."""
    size = (1 << 20) + 1
    length = "Transfer-Encoding: chunked" if chunked else f"Content-Length: {size}"
    data = b"%x\r\n%s\r\n0\r\n\r\n" % (size, b" " * size) if chunked else b" " * size
    head = f"POST /webhook/support HTTP/1.1\r\nHost: x\r\nOrigin: {ORIGIN}\r\n{length}\r\nConnection: close\r\n\r\n"
    with socket.create_connection(("127.0.0.1", product.port), timeout=10) as client:
        client.sendall(head.encode() + data)
        answer = b""
        while part := client.recv(65536):
            answer += part
    assert answer.startswith(b"HTTP/1.1 413 ")
    assert b"access-control-allow-origin: " + ORIGIN.encode() in answer.lower()
    error = json.loads(answer.split(b"\r\n\r\n", 1)[1])
    assert error["code"] == "body_too_large"
    assert "1048576" in error["message"] and "CONVOQ_MAX_BODY_BYTES" in error["message"]


@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize("path", ["nobody", "support/else", "support/chat/chat", "..", "%00", "%ff", ""])
def test_an_unknown_path(product: Stack, method: str, path: str) -> None:
    reply = product.request(method, f"/webhook/{path}", body() if method == "POST" else None, Origin=ORIGIN)
    assert (reply.status, reply.json["code"]) == (404, "unknown_path")
    assert "no chat at path" in reply.json["message"]
    if path.isalpha():
        assert f"'{path}'" in reply.json["message"]
    assert reply.headers["access-control-allow-origin"] == ORIGIN


def test_the_path_of_an_inactive_workflow(product: Stack) -> None:
    product.install({**chat_workflow("resting"), "name": "Night shift", "active": False})
    for method, data in (("GET", None), ("POST", body())):
        reply = product.request(method, "/webhook/resting", data, Origin=ORIGIN)
        assert (reply.status, reply.json["code"]) == (404, "inactive_workflow")
        assert "'Night shift'" in reply.json["message"] and "inactive" in reply.json["message"]
        assert reply.headers["access-control-allow-origin"] == ORIGIN


def test_a_workflow_that_is_switched_off_stops_answering(product: Stack) -> None:
    product.install(chat_workflow("switched"))
    assert product.say("switched", "hello").status == 200
    product.install({**chat_workflow("switched"), "active": False})
    until(lambda: product.say("switched", "hello").status == 404, "the end of the chat", timeout_s=5)


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH"])
def test_another_method(product: Stack, method: str) -> None:
    reply = product.request(method, "/webhook/support", body(), Origin=ORIGIN)
    assert (reply.status, reply.json["code"]) == (405, "method_not_allowed")
    assert method in reply.json["message"]
    assert {"GET", "POST"} <= set(reply.headers["allow"].replace(" ", "").split(","))
    assert reply.headers["access-control-allow-origin"] == ORIGIN


def test_no_such_page(product: Stack) -> None:
    reply = product.get("/nothing/here", Origin=ORIGIN)
    assert (reply.status, reply.json["code"]) == (404, "not_found")
    assert "/nothing/here" in reply.json["message"]
    assert reply.headers["access-control-allow-origin"] == ORIGIN


def test_load_previous_session_checks_its_session_too(product: Stack) -> None:
    data: dict[str, Any] = {"action": "loadPreviousSession", "sessionId": "a\0"}
    reply = product.request("POST", "/webhook/support", data)
    assert (reply.status, reply.json["code"]) == (400, "bad_session")
