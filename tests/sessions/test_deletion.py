"""What a deleted session leaves: nothing, wherever its messages were on their way."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import redis

from tests.sessions.trace import places_of
from tests.stack import ROOT, Stack, chat_workflow, until

SECRET = "the vault opens with “plum-tide-4417”"
OTHER = "the weather in Lisbon is fine"
SESSION = "user:ann/1 ✓"


@pytest.fixture
def server(product: Stack) -> Iterator[redis.Redis]:
    with product.redis() as client:
        yield client


@pytest.fixture(scope="module")
def chats(product: Stack) -> Stack:
    """A workflow that answers, one that fails, one that is slow; the failing model's error quotes what it was asked."""
    product.install(chat_workflow("quick"))
    product.install(chat_workflow("slow", delay_ms=150))
    broken = chat_workflow("broken")
    broken["nodes"][1]["parameters"] = {"promptType": "define", "text": "={{ $json.nothing[$json.chatInput].more }}"}
    product.install(broken)
    keyed = chat_workflow("keyed")
    keyed["nodes"][3]["parameters"] = {"sessionIdType": "customKey", "sessionKey": "=user {{ $json.sessionId }}"}
    product.install(keyed)
    return product


def delete(stack: Stack, path: str, session: str = SESSION) -> dict[str, Any]:
    reply = stack.request("DELETE", f"/api/v1/workflows/wf-{path}/sessions/{quote(session, safe='')}")
    assert reply.status == 200, reply.body
    found: dict[str, Any] = reply.json
    return found


def ended(stack: Stack, reply: Any) -> None:
    stack.execution(reply.headers["x-execution-id"])


def test_the_search_finds_what_is_there(chats: Stack, server: redis.Redis) -> None:
    """Or the tests below would prove nothing."""
    ended(chats, chats.say("quick", SECRET, SESSION, Idempotency_Key="one"))
    kinds = {place.split(":")[1] if place.startswith("convoq:") else "rq" for place in places_of(server, SECRET)}
    assert {"mem", "thread", "exec", "rq"} <= kinds, "memory, thread, run data and the job's arguments"
    delete(chats, "quick")


def test_nothing_is_left_of_a_finished_session(chats: Stack, server: redis.Redis) -> None:
    ended(chats, chats.say("quick", SECRET, SESSION, Idempotency_Key="one"))
    ended(chats, chats.say("quick", f"{SECRET}, and 19 * 23?", SESSION))
    ended(chats, chats.say("quick", OTHER, "somebody else"))
    assert delete(chats, "quick")["deleted"] == [SESSION]
    assert places_of(server, SECRET) == []
    assert places_of(server, "ann/1") == places_of(server, "ann%2F1") == []
    assert places_of(server, OTHER), "others keep what they have"
    assert chats.remembered("quick", "somebody else")
    reply = chats.request("DELETE", "/api/v1/workflows/wf-quick/sessions/user%3Aann%2F1%20%E2%9C%93")
    assert (reply.status, reply.json["code"]) == (404, "not_found")


def test_nothing_is_left_of_a_failed_session(chats: Stack, server: redis.Redis) -> None:
    reply = chats.say("broken", SECRET, SESSION)
    record = chats.execution(reply.headers["x-execution-id"])
    assert record["status"] == "error"
    assert server.zscore("convoq:rq:failed:chat", record["id"]) is not None
    assert places_of(server, SECRET)
    delete(chats, "broken")
    assert places_of(server, SECRET) == []
    assert server.zscore("convoq:rq:failed:chat", record["id"]) is None
    assert not server.exists(f"convoq:rq:job:{record['id']}", f"convoq:rq:results:{record['id']}")


def test_what_runs_and_what_waits_is_stopped_first(chats: Stack, server: redis.Redis) -> None:
    with chats.live("slow", SECRET, SESSION) as running, chats.live("slow", f"again: {SECRET}", SESSION) as waiting:
        running.until_item()
        assert server.hget(f"convoq:exec:{waiting.execution_id}", "status") == b"queued"
        delete(chats, "slow")
        assert places_of(server, SECRET) == []
        for live in (running, waiting):
            chunks = list(live.chunks())
            assert [chunk["type"] for chunk in chunks[-2:]] == ["error", "end"]
            assert chunks[-2]["content"] == "its session is deleted" or live is waiting, chunks
    until(lambda: server.zcard("convoq:lease") == 0, "no lease is left")
    assert places_of(server, SECRET) == [], "and nothing comes back"
    assert server.llen("convoq:rq:queue:chat") == 0
    assert chats.say("slow", "my name is Ada", SESSION).status == 200, "the session is free again"
    delete(chats, "slow")


def test_a_memory_under_a_key_of_its_own_is_found(chats: Stack, server: redis.Redis) -> None:
    ended(chats, chats.say("keyed", SECRET, SESSION))
    assert [place for place in places_of(server, SECRET) if place.startswith("convoq:mem:wf-keyed:user%20")]
    delete(chats, "keyed")
    assert places_of(server, SECRET) == []


def test_all_of_a_user_by_prefix(chats: Stack, server: redis.Redis) -> None:
    for session in ("bob:1", "bob:2", "bobby"):
        ended(chats, chats.say("quick", SECRET, session))
    reply = chats.request("DELETE", "/api/v1/workflows/wf-quick/sessions?prefix=bob:")
    assert sorted(reply.json["deleted"]) == ["bob:1", "bob:2"]
    assert chats.remembered("quick", "bob:1") == chats.remembered("quick", "bob:2") == []
    assert chats.remembered("quick", "bobby"), "another user"
    assert chats.request("DELETE", "/api/v1/workflows/wf-quick/sessions").status == 400
    delete(chats, "quick", "bobby")
    assert places_of(server, SECRET) == []


LC = "@n8n/n8n-nodes-langchain"
MEMORIES: dict[str, dict[str, Any]] = {
    "window": {"type": "convoq.windowMemory"},
    "window of one execution": {"type": "convoq.windowMemory", "parameters": {"scope": "session"}},
    "whole": {"type": "convoq.memoryWhole"},
    "tokens": {"type": "convoq.memoryTokenWindow"},
    "summary": {"type": "convoq.memorySummary", "parameters": {"maxMessages": 2}},
}


@pytest.mark.parametrize("kind", MEMORIES)
def test_every_memory_is_reached(chats: Stack, server: redis.Redis, kind: str) -> None:
    path = f"mem-{kind.replace(' ', '-')}"
    workflow = chat_workflow(path)
    workflow["nodes"][3] = {**workflow["nodes"][3], "typeVersion": 1, "parameters": {}, **MEMORIES[kind]}
    if kind == "summary":
        workflow["connections"]["Model"]["ai_languageModel"][0].append(
            {"node": "Memory", "type": "ai_languageModel", "index": 0}
        )
    chats.install(workflow)
    for text in (SECRET, OTHER, f"once more: {SECRET}"):
        ended(chats, chats.say(path, text, SESSION))
    assert [place for place in places_of(server, SECRET) if place.startswith(f"convoq:mem:wf-{path}:")]
    delete(chats, path)
    assert places_of(server, SECRET) == []
    assert not list(server.scan_iter(match=f"convoq:mem:wf-{path}:*"))


@pytest.mark.parametrize("policy", ["latest", "interrupt", "merge"])
def test_what_was_displaced_interrupted_or_joined_is_reached(chats: Stack, server: redis.Redis, policy: str) -> None:
    path = f"busy-{policy}"
    chats.install(chat_workflow(path, delay_ms=150, whenBusy=policy))
    with chats.live(path, f"first: {SECRET}", SESSION) as first:
        first.until_item()
        with (
            chats.live(path, f"second: {SECRET}", SESSION, Idempotency_Key="2"),
            chats.live(path, f"third: {SECRET}", SESSION, Idempotency_Key="3"),
        ):
            delete(chats, path)
            assert places_of(server, SECRET) == []
    until(lambda: server.zcard("convoq:lease") == 0, "no lease is left")
    assert places_of(server, SECRET) == []
    assert places_of(server, path) == [place for place in places_of(server, path) if ":wf:" in place], "the definition"


@pytest.mark.slow
def test_what_a_lost_worker_held_is_reached(redis_url: str, folder: Path) -> None:
    stack = Stack(folder, redis_url, {"CONVOQ_QUEUE": "lost", "CONVOQ_LEASE_S": "1"})
    try:
        stack.start_api()
        worker = stack.start_worker()
        stack.wait_ready()
        stack.install(chat_workflow("lost", delay_ms=150))
        with stack.live("lost", SECRET, SESSION) as live, stack.redis() as server:
            live.until_item()
            worker.popen.kill()
            delete(stack, "lost")
            assert places_of(server, SECRET) == []
            assert list(live.chunks())[-1]["type"] == "end", "its client is told"
    finally:
        stack.stop()


def test_only_who_has_the_key_may(redis_url: str, folder: Path) -> None:
    stack = Stack(folder, redis_url, {"CONVOQ_API_KEY": "the-key"})
    try:
        stack.start_api()
        until(lambda: _answers(stack), "the API")
        for method, tail in (("GET", ""), ("GET", "/s"), ("DELETE", "/s"), ("DELETE", "?prefix=s")):
            path = f"/api/v1/workflows/wf/sessions{tail}"
            assert stack.request(method, path).status == 401
            assert stack.request(method, path, X_API_Key="the-key").status in (200, 404)
    finally:
        stack.stop()


def _answers(stack: Stack) -> bool:
    try:
        return stack.get("/healthz").status == 200
    except OSError:
        return False


def convoq(stack: Stack, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "convoq.cli.entry", *arguments],
        cwd=ROOT,
        env={"CONVOQ_REDIS_URL": stack.redis_url, "PATH": "", "COLUMNS": "200"},
        capture_output=True,
        text=True,
        timeout=30,
    )


def test_the_commands(chats: Stack, server: redis.Redis) -> None:
    ended(chats, chats.say("quick", "my name is Ada", SESSION))
    with chats.live("quick", SECRET, SESSION) as live:
        list(live.chunks())
    until(lambda: len(chats.remembered("quick", SESSION)) == 4, "both turns")
    listed = json.loads(convoq(chats, "sessions", "wf-quick", "--json").stdout)
    found = next(row for row in listed if row["id"] == SESSION)
    assert (found["workflow"], found["turns"], found["executions"]) == ("wf-quick", 2, 2)
    assert SESSION in convoq(chats, "sessions").stdout
    shown = convoq(chats, "session", "show", "wf-quick", SESSION).stdout
    assert "user: my name is Ada" in shown and "assistant: Nice to meet you, Ada." in shown
    exported = json.loads(convoq(chats, "session", "export", "wf-quick", SESSION).stdout)
    assert [exchange["user"] for exchange in exported["thread"]] == ["my name is Ada", SECRET]
    assert [element["role"] for element in exported["memories"][0]["elements"]] == ["user", "assistant"] * 2
    assert [record["status"] for record in exported["execution_records"]] == ["success"] * 2
    with chats.live("slow", SECRET, SESSION) as live:
        live.until_item()
        done = convoq(chats, "session", "delete", "wf-slow", SESSION)
        assert done.returncode == 0, done.stderr
    assert convoq(chats, "session", "delete", "wf-quick", SESSION).returncode == 0
    assert places_of(server, SECRET) == []
    missing = convoq(chats, "session", "show", "wf-quick", SESSION)
    assert missing.returncode == 1 and SESSION in missing.stderr
    assert convoq(chats, "session", "delete", "wf-quick").returncode == 2
