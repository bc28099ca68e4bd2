"""What a second message of a session does while the first runs, and a message that is sent twice."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from convoq.models.mock import HELP
from tests.stack import Live, Reply, Stack, chat_workflow, until

POLICIES = ("queue", "reject", "latest", "interrupt", "merge")


@pytest.fixture(scope="module", autouse=True)
def chats(product: Stack) -> None:
    for policy in POLICIES:
        product.install(chat_workflow(policy, delay_ms=40, whenBusy=policy))
    product.install(chat_workflow("typing", whenBusy="merge", mergeWindow=0.6))


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(8) as pool:
        yield pool


def rest(live: Live) -> list[dict[str, Any]]:
    return list(live.chunks())


def said(chunks: list[dict[str, Any]]) -> str:
    return "".join(chunk["content"] for chunk in chunks if chunk["type"] == "item")


def ending(chunks: list[dict[str, Any]]) -> tuple[str, str]:
    """The code of the stream's error, if it has one, and the type of its last line."""
    return next((chunk["code"] for chunk in chunks if chunk["type"] == "error"), ""), chunks[-1]["type"]


def test_queue_is_the_order_of_acceptance_and_tells_the_position(product: Stack) -> None:
    with product.live("queue", "my name is Ada", "b") as first:
        first.until_item()
        with product.live("queue", "what is my name?", "b") as second, product.live("queue", "hello", "b") as third:
            chunks = rest(second)
            assert said(chunks) == "Your name is Ada."
            assert chunks[0] == {"type": "queued", "position": 1}
            last = rest(third)
            assert (last[0], said(last)) == ({"type": "queued", "position": 2}, HELP)
            assert [chunk["seq"] for chunk in last[1:]] == list(range(len(last) - 1))


def test_reject_names_the_running_execution(product: Stack) -> None:
    with product.live("reject", "hello", "b") as first:
        first.until_item()
        refused = product.say("reject", "me too", "b")
        assert (refused.status, refused.json["code"]) == (409, "session_busy")
        assert refused.json["execution"] == first.execution_id
        assert product.say("reject", "hello", "another session").status == 200
        first.text()
    assert product.say("reject", "me too", "b").text == HELP


def test_latest_drops_what_waits(product: Stack) -> None:
    with product.live("latest", "my name is Ada", "b") as first:
        first.until_item()
        with product.live("latest", "hello", "b") as second, product.live("latest", "what is my name?", "b") as third:
            dropped = rest(second)
            assert ending(dropped) == ("displaced", "end")
            assert third.execution_id in dropped[-2]["content"]
            assert said(rest(third)) == "Your name is Ada."
        assert first.execution_id and not ending(rest(first))[0]
    assert product.execution(second.execution_id)["error"]["code"] == "displaced"
    texts = [text for role, text in product.remembered("latest", "b") if role == "user"]
    assert texts == ["my name is Ada", "what is my name?"]


def test_interrupt_stops_what_runs_and_drops_what_waits(product: Stack) -> None:
    with product.live("interrupt", "hello", "b") as first:
        heard = first.until_item()["content"]
        with product.live("interrupt", "hello", "b") as second:
            assert ending(stopped := rest(first)) == ("stopped", "end")
            assert "interrupted" in next(chunk for chunk in stopped if chunk["type"] == "error")["content"]
            second.until_item()
            with product.live("interrupt", "my name is Ada", "b") as third:
                assert ending(rest(second)) == ("stopped", "end")
                assert said(rest(third)) == "Nice to meet you, Ada."
    turns = product.remembered("interrupt", "b")
    assert [text for role, text in turns if role == "user"] == ["hello", "hello", "my name is Ada"]
    assert turns[1][1] == (heard + said(stopped))  # what the client had seen
    assert product.execution(first.execution_id)["status"] == "stopped"


def test_merge_makes_one_turn_of_what_waits(product: Stack, pool: ThreadPoolExecutor) -> None:
    with product.live("merge", "hello", "b") as first:
        first.until_item()
        with product.live("merge", "my name is", "b") as second, product.live("merge", "Ada", "b") as third:
            assert second.execution_id == third.execution_id != first.execution_id
            assert second.headers["x-stream-token"] == third.headers["x-stream-token"]
            streams = [pool.submit(rest, live) for live in (second, third)]
            numbered = [[chunk for chunk in stream.result(20) if "seq" in chunk] for stream in streams]
    assert numbered[0] == numbered[1]
    assert said(numbered[0]) == "Nice to meet you, Ada."
    users = [text for role, text in product.remembered("merge", "b") if role == "user"]
    assert users == ["hello", "my name is\n\nAda"]


def test_messages_typed_in_a_row_are_one_turn(product: Stack) -> None:
    """The merge window: the first waits a moment for others although nothing runs."""
    with product.live("typing", "my name is", "b") as first, product.live("typing", "Ada", "b") as second:
        assert first.execution_id == second.execution_id
        assert said(rest(first)) == said(rest(second)) == "Nice to meet you, Ada."
    assert product.remembered("typing", "b")[0][1] == "my name is\n\nAda"
    assert product.say("typing", "what is my name?", "b").text == "Your name is Ada."


def test_a_key_is_accepted_once(product: Stack, pool: ThreadPoolExecutor) -> None:
    def send(number: int) -> Reply:
        return product.say("queue", "my name is Ada", "once", Idempotency_Key="k1", Accept="application/x-ndjson")

    replies = list(pool.map(send, range(8)))
    assert {reply.status for reply in replies} == {200}
    assert len({reply.headers["x-execution-id"] for reply in replies}) == 1
    assert len({reply.headers["x-stream-token"] for reply in replies}) == 1
    streams = [[line for line in reply.lines if "seq" in line] for reply in replies]
    assert streams == [streams[0]] * 8
    assert len(product.remembered("queue", "once")) == 2
    late = send(9)  # after its end, too
    assert late.headers["x-execution-id"] == replies[0].headers["x-execution-id"]
    assert late.lines == streams[0]


def test_a_key_belongs_to_its_message_and_its_session(product: Stack) -> None:
    first = product.say("queue", "hello", "k a", Idempotency_Key="k2")
    other = product.say("queue", "something else", "k a", Idempotency_Key="k2")
    assert (other.status, other.json["code"]) == (400, "bad_request")
    assert other.json["execution"] == first.headers["x-execution-id"]
    elsewhere = product.say("queue", "hello", "k b", Idempotency_Key="k2")
    assert elsewhere.headers["x-execution-id"] != first.headers["x-execution-id"]
    assert product.say("queue", "hello", "k a", Idempotency_Key="x" * 256).status == 400


def test_a_key_of_a_message_that_joined_leads_to_the_joint_answer(product: Stack) -> None:
    with product.live("merge", "hello", "k c") as first:
        first.until_item()
        with product.live("merge", "my name is", "k c", Idempotency_Key="a") as host:
            joined = product.say("merge", "Ada", "k c", Idempotency_Key="b", Accept="application/x-ndjson")
            again = product.say("merge", "Ada", "k c", Idempotency_Key="b", Accept="application/x-ndjson")
            assert joined.text == again.text == "Nice to meet you, Ada."
            ids = {reply.headers["x-execution-id"] for reply in (joined, again)}
            assert ids == {host.execution_id}
    until(lambda: len(product.remembered("merge", "k c")) == 4, "two turns, not three")
