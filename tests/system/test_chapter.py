"""The chat path end to end, by real processes: what the first chapter of its story promises."""

from __future__ import annotations

import json
import re
import time
from itertools import pairwise
from typing import Any

import pytest

from tests.stack import Reply, Stack, chat_workflow, until

NDJSON = "application/x-ndjson; charset=utf-8"
QUESTION = "What is 19 * 23?"
LANGCHAIN = ["langchain_core", "messages"]
ANSWER = "Based on the tools: Calculator returned 437."


@pytest.fixture(scope="module")
def chats(product: Stack) -> Stack:
    """More chats for the tests of this file."""
    product.install(chat_workflow("later", mode="onReceived"))
    product.install(chat_workflow("slow", delay_ms=100))
    product.install(chat_workflow("strict", requireSessionId=True))
    product.install(chat_workflow("reload", loadPreviousSession="memory"))
    product.install(chat_workflow("plain-agent", agent={"options": {"enableStreaming": False}}))
    return product


def types(reply: Reply) -> list[str]:
    return [line["type"] for line in reply.lines]


def test_an_answer_streams_as_ndjson(product: Stack) -> None:
    reply = product.say("support", QUESTION, "ndjson")
    assert reply.status == 200
    assert reply.headers["content-type"] == NDJSON
    assert reply.headers["cache-control"] == "no-cache, no-transform"
    assert reply.headers["x-accel-buffering"] == "no"
    assert types(reply) == ["begin", *["item"] * 7, "end"]
    assert reply.text == ANSWER
    assert [line["seq"] for line in reply.lines] == list(range(9))
    assert reply.body.endswith(b"}\n")


def test_every_chunk_says_which_run_of_which_node_made_it(product: Stack) -> None:
    before = time.time() * 1000
    for line in product.say("support", QUESTION, "metadata").lines:
        metadata = line["metadata"]
        assert (metadata["nodeName"], metadata["nodeId"]) == ("AI Agent", "n1")
        assert (metadata["runIndex"], metadata["itemIndex"]) == (0, 0)
        assert before - 1 <= metadata["timestamp"] <= time.time() * 1000 + 1


def test_last_node_answers_json(product: Stack) -> None:
    reply = product.say("ask", QUESTION, "last-node")
    assert (reply.status, reply.headers["content-type"]) == (200, "application/json")
    assert reply.json == {"output": ANSWER}


def test_the_third_message_recalls_the_second(product: Stack) -> None:
    assert product.say("support", QUESTION, "ada").text == ANSWER
    assert product.say("support", "my name is Ada", "ada").text == "Nice to meet you, Ada."
    assert product.say("support", "What is my name?", "ada").text == "Your name is Ada."


def test_sessions_and_workflows_are_isolated(product: Stack) -> None:
    product.say("support", "my name is Ada", "one")
    assert product.say("support", "What is my name?", "two").text == "I do not know your name yet."
    assert product.say("ask", "What is my name?", "one").json == {"output": "I do not know your name yet."}
    assert product.say("support", "What is my name?", "one").text == "Your name is Ada."


def test_the_run_data_shows_two_model_runs_and_the_chosen_arguments(product: Stack) -> None:
    reply = product.say("support", QUESTION, "run-data")
    record = product.execution(reply.headers["x-execution-id"])
    assert (record["status"], record["session"], record["attempt"]) == ("success", "run-data", 1)
    assert record["created"] <= record["started"] <= record["ended"]
    runs: list[dict[str, Any]] = [run for run in record["data"] if run["node"] != "Memory"]
    assert [(run["node"], run["run_index"]) for run in runs] == [
        ("Chat", 0),
        ("AI Agent", 0),
        ("Model", 0),
        ("Calculator", 0),
        ("Model", 1),
    ]
    chosen, tool, answered = runs[2], runs[3], runs[4]
    assert chosen["outputs"][0][0]["toolCalls"][0]["arguments"] == '{"input":"19 * 23"}'
    assert tool["inputs"] == [[{"input": "19 * 23"}]]
    assert tool["outputs"] == [[{"response": "437"}]]
    assert answered["outputs"][0][0]["text"] == ANSWER
    assert not [run for run in record["data"] if run["error"]]


def test_messages_without_a_session_share_the_default_one(product: Stack) -> None:
    reply = product.request("POST", "/webhook/support", {"chatInput": "my name is Grace"})
    assert product.execution(reply.headers["x-execution-id"])["session"] == "default"
    assert product.say("support", "What is my name?", "default").text == "Your name is Grace."
    empty = product.request("POST", "/webhook/support", {"chatInput": "What is my name?", "sessionId": ""})
    assert empty.text == "Your name is Grace."


@pytest.mark.parametrize("body", [{"chatInput": "hi"}, {"chatInput": "hi", "sessionId": ""}])
def test_a_chat_may_require_a_session_id(chats: Stack, body: dict[str, str]) -> None:
    reply = chats.request("POST", "/webhook/strict", body)
    assert (reply.status, reply.json["code"]) == (400, "bad_session")
    assert "sessionId" in reply.json["message"]
    assert chats.say("strict", QUESTION, "given").text == ANSWER


def test_get_is_the_chat_page_and_needs_nothing_else(product: Stack) -> None:
    for path in ("/webhook/support", "/webhook/support/chat", "/webhook/support/"):
        page = product.get(path)
        assert (page.status, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
        assert page.body.startswith(b"<!doctype html>")
        assert not re.findall(rb'(?:src|href)="(?!data:)|@import', page.body)
        assert "default-src 'none'" in page.headers["content-security-policy"]


@pytest.mark.parametrize("path", ["support", "support/", "support/chat", "support/chat/"])
def test_a_message_may_be_posted_to_each_form_of_the_path(product: Stack, path: str) -> None:
    reply = product.say(path, QUESTION, f"form {path}")
    assert (reply.status, reply.headers["content-type"], reply.text) == (200, NDJSON, ANSWER)


def test_on_received_answers_before_the_run(chats: Stack) -> None:
    reply = chats.say("later", "my name is Ada", "received")
    assert reply.status == 200
    assert reply.json == {"executionStarted": True, "executionId": reply.headers["x-execution-id"]}
    assert chats.execution(reply.json["executionId"])["status"] == "success"
    assert chats.remembered("later", "received")[0] == ("user", "my name is Ada")


STREAMING_FORMS = {
    "": "ndjson",
    "*/*": "ndjson",
    "text/html, */*;q=0.8": "ndjson",
    "application/x-ndjson": "ndjson",
    "text/plain": "ndjson",
    "application/json": "json",
    "application/json;q=0, text/plain": "ndjson",
    "text/event-stream": "sse",
    "image/png, TEXT/EVENT-STREAM": "sse",
}
LAST_NODE_FORMS = {**STREAMING_FORMS, "": "json", "*/*": "json", "text/html, */*;q=0.8": "json"}
FORMS = [("support", *pair) for pair in STREAMING_FORMS.items()] + [("ask", *pair) for pair in LAST_NODE_FORMS.items()]


@pytest.mark.parametrize(("path", "accept", "form"), FORMS)
def test_accept_chooses_the_form(product: Stack, path: str, accept: str, form: str) -> None:
    reply = product.say(path, QUESTION, f"accept {accept}", **({"Accept": accept} if accept else {}))
    assert reply.status == 200
    kind = reply.headers["content-type"]
    if form == "json":
        assert (kind, reply.json) == ("application/json", {"output": ANSWER})
    elif form == "ndjson":
        assert (kind, reply.text) == (NDJSON, ANSWER)
    else:
        assert kind == "text/event-stream; charset=utf-8"
        events = reply.body.decode().split("\n\n")
        assert events.pop() == ""
        ids, data = zip(*(event.split("\n") for event in events), strict=True)
        assert list(ids) == [f"id: {n}" for n in range(9)]
        chunks = [json.loads(line.removeprefix("data: ")) for line in data]
        assert [chunk["seq"] for chunk in chunks] == list(range(9))
        assert "".join(chunk.get("content", "") for chunk in chunks) == ANSWER


def test_an_agent_that_does_not_stream_answers_all_the_same(chats: Stack) -> None:
    reply = chats.say("plain-agent", QUESTION, "plain")
    assert types(reply) == ["begin", "item", "end"]
    assert reply.text == ANSWER
    assert [line["seq"] for line in reply.lines] == [0, 1, 2]


def test_tokens_arrive_one_by_one(chats: Stack) -> None:
    arrived: list[float] = []
    with chats.live("slow", QUESTION, "one by one") as live:
        for chunk in live.chunks():
            if chunk["type"] == "item":
                arrived.append(time.monotonic())
    gaps = [later - earlier for earlier, later in pairwise(arrived)]
    assert len(gaps) == 6
    assert sorted(gaps)[1] > 0.05, gaps  # one pair may be pushed together by a busy machine
    assert sum(gaps) > 0.5


def test_keepalive_lines_while_the_model_thinks(chats: Stack, tmp_path_factory: pytest.TempPathFactory) -> None:
    chats.install(chat_workflow("thinking", delay_ms=200))
    brisk = Stack(tmp_path_factory.mktemp("brisk"), chats.redis_url)
    try:
        brisk.start_api(CONVOQ_KEEPALIVE_S="0.05")
        brisk.wait_ready(workers=2)
        with brisk.live("thinking", "my name is Ada", "ndjson") as live:
            chunks = list(live.chunks(keepalives=True))
        alive = [chunk for chunk in chunks if chunk["type"] == "keepalive"]
        assert alive and all(chunk == {"type": "keepalive"} for chunk in alive)
        assert chunks[-1]["type"] == "end"
        assert [chunk["seq"] for chunk in chunks if "seq" in chunk] == list(range(7))
        with brisk.live("thinking", "my name is Ada", "sse", Accept="text/event-stream") as live:
            lines = []
            while line := live.line():
                lines.append(line)
        assert b": keepalive\n" in lines
        assert sum(line.startswith(b"id: ") for line in lines) == 7
    finally:
        brisk.stop()


def test_a_client_that_leaves_does_not_stop_its_execution(chats: Stack) -> None:
    with chats.live("slow", "my name is Ada", "left") as live:
        live.until_item()
        execution_id = live.execution_id
        live.leave()
    assert chats.execution(execution_id)["status"] == "success"
    assert chats.remembered("slow", "left") == [("user", "my name is Ada"), ("assistant", "Nice to meet you, Ada.")]
    assert chats.say("slow", "What is my name?", "left").text == "Your name is Ada."


def load_session(stack: Stack, path: str, session: str) -> Reply:
    return stack.request("POST", f"/webhook/{path}", {"action": "loadPreviousSession", "sessionId": session})


def test_load_previous_session_shows_the_turns_and_starts_nothing(chats: Stack) -> None:
    last = ""
    for text in ("my name is Ada", QUESTION):
        last = chats.say("reload", text, "back").headers["x-execution-id"]
    chats.execution(last)
    with chats.redis() as client:
        before = set(client.scan_iter("convoq:exec:*"))
        reply = load_session(chats, "reload", "back")
        assert set(client.scan_iter("convoq:exec:*")) == before
    assert reply.status == 200
    messages = reply.json["data"]
    empty: dict[str, Any] = {"additional_kwargs": {}, "response_metadata": {}}
    human = {"content": "my name is Ada", **empty}
    assert messages[0] == {"lc": 1, "type": "constructor", "id": [*LANGCHAIN, "HumanMessage"], "kwargs": human}
    ai = {"content": "Nice to meet you, Ada.", "tool_calls": [], "invalid_tool_calls": [], **empty}
    assert messages[1] == {"lc": 1, "type": "constructor", "id": [*LANGCHAIN, "AIMessage"], "kwargs": ai}
    shown = [(message["id"][-1], message["kwargs"]["content"]) for message in messages]
    assert shown == [
        ("HumanMessage", "my name is Ada"),
        ("AIMessage", "Nice to meet you, Ada."),
        ("HumanMessage", QUESTION),
        ("AIMessage", ANSWER),
    ]
    assert b"input" not in reply.body  # what the tool was asked


def test_load_previous_session_is_empty_where_there_is_nothing_to_show(chats: Stack) -> None:
    for path, session in (("reload", "never seen"), ("support", "one")):
        reply = load_session(chats, path, session)
        assert (reply.status, reply.json) == (200, {"data": []})


def test_a_session_is_served_and_remembered_by_every_worker(product: Stack) -> None:
    """The very fault that memory in a process has: the next message meets another worker."""

    def worker(text: str, answer: str) -> str:
        reply = product.say("support", text, "both workers")
        assert reply.text == answer
        name: str = product.execution(reply.headers["x-execution-id"])["worker"]
        return name

    def asked_elsewhere() -> bool:
        teller = worker("my name is Ada", "Nice to meet you, Ada.")
        return worker("What is my name?", "Your name is Ada.") != teller

    until(asked_elsewhere, "a question of the session on another worker than what it asks for")


def test_health_and_readiness(product: Stack) -> None:
    assert (product.get("/healthz").status, product.get("/healthz").json) == (200, {"status": "ok"})
    ready = product.get("/readyz")
    assert ready.status == 200
    assert ready.json == {"status": "ok", "workers": 2, "checks": {"redis": "ok", "workers": "ok"}}
