"""A stream can be read again from any chunk, by who has its token, and by nobody else."""

from __future__ import annotations

import json
from uuid import uuid4

import pytest

from tests.stack import Live, Reply, Stack, chat_workflow

HELLO = 32
"""Chunks of the mock model's answer: `begin`, its words, `end`."""


@pytest.fixture(scope="module", autouse=True)
def chats(product: Stack) -> None:
    product.install(chat_workflow("again", delay_ms=30))


def stream(product: Stack, live: Live, after: object = None, token: str | None = None, **headers: str) -> Reply:
    shown = live.headers["x-stream-token"] if token is None else token
    query = f"?token={shown}" + ("" if after is None else f"&after={after}")
    return product.get(f"/executions/{live.execution_id}/stream{query}", **headers)


def test_the_rest_of_a_running_answer(product: Stack) -> None:
    """Hang up in the middle and come back: nothing is missing, nothing comes twice."""
    with product.live("again", "hello", "again 1") as live:
        read = [next(live.chunks()) for _ in range(5)]
        live.leave()
        rest = stream(product, live, read[-1]["seq"])
    assert rest.status == 200
    assert rest.headers["content-type"] == "application/x-ndjson; charset=utf-8"
    lines = [*read, *rest.lines]
    assert [line["seq"] for line in lines] == list(range(len(lines)))
    assert lines == stream(product, live).lines
    assert lines[-1]["type"] == "end"


def test_several_read_the_same_stream_from_different_places(product: Stack) -> None:
    with product.live("again", "hello", "again 2") as live, product.live("again", "hello", "again 3") as other:
        first = [next(live.chunks()) for _ in range(3)]
        late = stream(product, live, 0).lines
        assert [*first, *live.chunks()] == [first[0], *late]
        assert live.execution_id != other.execution_id
        assert other.text() == "".join(line["content"] for line in late if line["type"] == "item")


def test_last_event_id_resumes_as_sse(product: Stack) -> None:
    with product.live("again", "hello", "again 4") as live:
        lines = list(live.chunks())
    for reply in (
        stream(product, live, Last_Event_ID="2"),
        stream(product, live, 2, Accept="text/event-stream"),
    ):
        assert reply.headers["content-type"] == "text/event-stream; charset=utf-8"
        events = [event.split("\n") for event in reply.body.decode().split("\n\n")[:-1]]
        assert [event[0] for event in events] == [f"id: {line['seq']}" for line in lines[3:]]
        assert [json.loads(event[1].removeprefix("data: ")) for event in events] == lines[3:]


def test_nothing_more_to_come_is_204(product: Stack) -> None:
    with product.live("again", "hello", "again 5") as live:
        last = list(live.chunks())[-1]["seq"]
    reply = stream(product, live, last)
    assert (reply.status, reply.body) == (204, b"")
    assert stream(product, live, last - 1).lines == [stream(product, live).lines[-1]]


def test_a_log_that_is_gone_is_410_with_a_reason(product: Stack) -> None:
    with product.live("again", "hello", "again 6") as live:
        live.text()
    with product.redis() as client:
        assert client.delete(f"convoq:exec:{live.execution_id}:log") == 1
    reply = stream(product, live, 3)
    assert (reply.status, reply.json["code"]) == (410, "gone")
    assert live.execution_id in reply.json["message"]
    never = product.get(f"/executions/{uuid4()}/stream?token=x")
    assert (never.status, never.json["code"]) == (410, "gone")


@pytest.mark.parametrize("token", ["", "wrong", "é", "x" * 3000])
def test_only_the_token_opens_it(product: Stack, token: str) -> None:
    with product.live("again", "hello", "again 7") as live:
        reply = product.get(f"/executions/{live.execution_id}/stream", X_Stream_Token=token.encode().decode("latin-1"))
        assert (reply.status, reply.json["code"]) == (401, "unauthorized")
        stop = product.request("POST", f"/executions/{live.execution_id}/stop?token=wrong")
        assert stop.status == 401
        assert live.text()
    other = stream(product, live, X_Stream_Token="wrong")  # the query's is the right one
    assert other.status == 200


@pytest.mark.parametrize("after", ["-2", "x", "1.5", "99999", str(1 << 80), "--1"])
def test_a_place_that_cannot_be_is_400(product: Stack, after: str) -> None:
    with product.live("again", "hello", "again 8") as live:
        live.until_item()
        reply = stream(product, live, after)
    assert (reply.status, reply.json["code"]) == (400, "bad_request")
    assert after[:20] in reply.json["message"]


def test_what_is_no_execution_id_is_404(product: Stack) -> None:
    reply = product.get("/executions/nonsense/stream?token=x")
    assert (reply.status, reply.json["code"]) == (404, "unknown_execution")
