"""A stop ends the model call at once, is confirmed, and leaves in memory what the user had seen."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator

import pytest

from tests.delivery.model import model_thread, model_workflow
from tests.models.server import ModelServer, delta, streams
from tests.stack import Live, Reply, Stack, chat_workflow, until

STOP_S = 1.0


@pytest.fixture(scope="module", autouse=True)
def chats(product: Stack) -> None:
    product.install(chat_workflow("talks", delay_ms=40))
    product.install(chat_workflow("left", delay_ms=40, cancelOnDisconnect=True))


@pytest.fixture
def hanging() -> Iterator[ModelServer]:
    """A model that says two words and then nothing more."""
    with model_thread(streams(delta("one "), delta("two "), then="hang")) as server:
        yield server


def stop(product: Stack, live: Live) -> Reply:
    return product.request("POST", f"/executions/{live.execution_id}/stop?token={live.headers['x-stream-token']}")


def ending(live: Live) -> list[tuple[str, str]]:
    rest = list(live.chunks())
    assert rest[-1]["type"] == "end"
    return [(chunk["code"], chunk["content"]) for chunk in rest if chunk["type"] == "error"]


def test_a_stop_hangs_up_on_the_model(product: Stack, hanging: ModelServer) -> None:
    product.install(model_workflow("hangs", hanging))
    with product.live("hangs", "go on", "s") as live:
        assert [live.until_item()["content"], live.until_item()["content"]] == ["one ", "two "]
        asked = time.monotonic()
        reply = stop(product, live)
        until(hanging.gone.is_set, "the model's client left", timeout_s=STOP_S)
        assert time.monotonic() - asked < STOP_S
        assert (reply.status, reply.json["status"]) == (200, "stopped")
        assert ending(live) == [("stopped", "stopped on request")]
    assert len(hanging.requests) == 1
    record = product.execution(live.execution_id)
    assert (record["status"], record["error"]["code"]) == ("stopped", "stopped")
    with product.redis() as client:
        user, assistant = map(json.loads, client.lrange("convoq:mem:wf-hangs:s:Memory", 0, -1))
        partial = client.hget(f"convoq:exec:{live.execution_id}", "partial")
    assert (user["content"], assistant["content"], assistant["cut_off"]) == ("go on", "one two ", True)
    assert partial == b"one two "


def test_a_stop_before_the_first_word_leaves_no_turn(product: Stack) -> None:
    with model_thread(streams(then="hang")) as silent:
        product.install(model_workflow("silent", silent))
        with product.live("silent", "go on", "s") as live:
            until(lambda: silent.requests, "the model was asked")
            assert stop(product, live).json["status"] == "stopped"
            assert ending(live) == [("stopped", "stopped on request")]
    assert product.remembered("silent") == []


def test_a_message_that_waits_can_be_stopped(product: Stack) -> None:
    with product.live("talks", "hello", "w") as first:
        first.until_item()
        with product.live("talks", "my name is Ada", "w") as second, product.live("talks", "hello", "w") as third:
            assert stop(product, second).json["status"] == "stopped"
            assert ending(second) == [("stopped", "stopped on request")]
            assert first.text() and third.text()
    assert [text for role, text in product.remembered("talks", "w") if role == "user"] == ["hello", "hello"]
    with product.redis() as client:
        assert not client.keys("convoq:rq:rl:*talks*w*")
        assert client.zscore("convoq:waiting", second.execution_id) is None


def test_a_stop_may_be_repeated_and_come_late(product: Stack) -> None:
    with product.live("talks", "hello", "r") as live:
        live.until_item()
        assert [stop(product, live).json["status"] for _ in range(3)] == ["stopped"] * 3
        assert len(ending(live)) == 1
    assert product.say("talks", "hello", "r").lines[-1]["type"] == "end"
    with product.live("talks", "hello", "r") as live:
        live.text()
        reply = stop(product, live)
    assert (reply.status, reply.json) == (200, {"executionId": live.execution_id, "status": "success"})


def test_the_session_goes_on_after_a_stop(product: Stack) -> None:
    """The next turn sees the one that was cut off."""
    with product.live("talks", "my name is Ada", "g") as live:
        live.until_item()
        stop(product, live)
    assert product.say("talks", "what is my name?", "g").text == "Your name is Ada."


def test_a_client_that_leaves_stops_its_execution_only_where_that_is_wanted(product: Stack) -> None:
    with product.live("left", "hello", "l") as live:
        live.until_item()
    record = product.execution(live.execution_id)
    assert (record["status"], record["error"]["message"]) == ("stopped", "the client left")
    with product.live("talks", "hello", "l") as live:
        live.until_item()
    assert product.execution(live.execution_id)["status"] == "success"
