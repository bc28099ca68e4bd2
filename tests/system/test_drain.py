"""A worker that is told to stop: what runs is finished, what had not started goes to another, nothing is lost."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from convoq.models.mock import HELP
from tests.stack import Process, Stack, chat_workflow, until

DB = "1"
SESSIONS = 12
MESSAGES = 5


@pytest.fixture
def stack(redis_url: str, folder: Path) -> Iterator[Stack]:
    """An API of its own on a database of its own; the tests start its workers."""
    stack = Stack(folder, f"{redis_url}/{DB}", {"CONVOQ_LEASE_S": "1"})
    try:
        with stack.redis() as client:
            client.flushdb()
        stack.start_api()
        yield stack
    finally:
        stack.stop()


def name_of(process: Process) -> str:
    """The worker's name, `host.pid.random`, has its process id."""
    return f".{process.popen.pid}."


def test_a_worker_drained_under_load_loses_nothing(stack: Stack) -> None:
    first, second = stack.start_worker(), stack.start_worker()
    stack.wait_ready(workers=2)
    stack.install(chat_workflow("load", delay_ms=20))
    served: list[str] = []
    drained = threading.Event()

    def converse(number: int) -> list[str]:
        texts = []
        for k in range(MESSAGES):
            with stack.live("load", f"What is {number + 2} * {k + 2}?", f"s{number}") as live:
                texts.append(live.text())
                served.append(live.execution_id)
            if k == MESSAGES - 2:
                drained.wait(30)  # the last message of each comes when one worker is left
        return texts

    with ThreadPoolExecutor(SESSIONS) as pool:
        answers = [pool.submit(converse, number) for number in range(SESSIONS)]
        with stack.redis() as client:
            until(lambda: client.zcard("convoq:lease") >= 4 and len(served) >= SESSIONS, "load on the workers")
            assert first.stop(signal.SIGTERM) == 0
        drained.set()
        told = [answer.result(60) for answer in answers]
    assert told == [
        [f"Based on the tools: Calculator returned {(number + 2) * (k + 2)}." for k in range(MESSAGES)]
        for number in range(SESSIONS)
    ]
    records = [stack.execution(execution_id) for execution_id in served]
    assert {(record["status"], record["attempt"]) for record in records} == {("success", 1)}
    for worker in (first, second):
        assert any(name_of(worker) in record["worker"] for record in records)
    with stack.redis() as client:
        assert client.llen("convoq:rq:queue:chat:intermediate") == client.llen("convoq:rq:queue:chat") == 0
        assert client.zcard("convoq:lease") == client.zcard("convoq:rq:wip:chat") == 0
        workers = client.smembers("convoq:rq:workers")
    assert [name_of(second).encode() in worker for worker in workers] == [True]


def test_a_running_answer_is_finished_and_what_waits_is_left_to_others(stack: Stack) -> None:
    stopping = stack.start_worker("--concurrency", "1")
    stack.wait_ready()
    stack.install(chat_workflow("slow", delay_ms=60))
    with stack.live("slow", "hello", "runs") as running:
        words = [running.until_item()["content"]]
        with stack.live("slow", "What is 4 * 5?", "waits") as waiting:
            stopping.popen.send_signal(signal.SIGTERM)
            words.append(running.text())
            assert "".join(words) == HELP
            assert name_of(stopping) in stack.execution(running.execution_id)["worker"]
            assert stopping.stop() == 0
            assert stack.get(f"/api/v1/executions/{waiting.execution_id}").json["status"] == "queued"
            with stack.redis() as client:
                assert client.lrange("convoq:rq:queue:chat", 0, -1) == [waiting.execution_id.encode()]
                assert client.llen("convoq:rq:queue:chat:intermediate") == 0
            other = stack.start_worker()
            assert waiting.text() == "Based on the tools: Calculator returned 20."
            record = stack.execution(waiting.execution_id)
    assert (record["status"], record["attempt"]) == ("success", 1)
    assert name_of(other) in record["worker"]


def test_a_message_that_meets_a_stopping_worker_is_handed_back(stack: Stack) -> None:
    """A worker that waits for a job when it is told to stop may still be given one."""
    stopping = stack.start_worker()
    stack.wait_ready()
    stack.install(chat_workflow("late"))
    with stack.redis() as client:
        until(
            lambda: any("b" in c["flags"] and c["db"] == "1" for c in client.client_list()),
            "the worker waits for a job",
        )
    stopping.popen.send_signal(signal.SIGTERM)
    with stack.live("late", "What is 19 * 23?", "late") as live:
        assert stopping.stop() == 0
        with stack.redis() as client:
            assert client.lrange("convoq:rq:queue:chat", 0, -1) == [live.execution_id.encode()]
            assert client.llen("convoq:rq:queue:chat:intermediate") == 0
        stack.start_worker()
        assert live.text() == "Based on the tools: Calculator returned 437."
        assert stack.execution(live.execution_id)["attempt"] == 1


@pytest.mark.parametrize("concurrency", [1, 50])
def test_what_outlasts_the_grace_time_ends_with_an_error(stack: Stack, concurrency: int) -> None:
    """Whether the worker waits for another job just then, or for a free place."""
    stopping = stack.start_worker("--concurrency", str(concurrency), CONVOQ_DRAIN_S="0.2")
    stack.wait_ready()
    stack.install(chat_workflow("long", delay_ms=300))
    with stack.live("long", "hello", "long") as live:
        live.until_item()
        assert stopping.stop() == 0
        *_, error, end = live.chunks()
    assert (error["type"], error["code"], end["type"]) == ("error", "worker_lost", "end")
    assert "shut down" in error["content"]
    record = stack.execution(live.execution_id)
    assert record["error"]["code"] == "worker_lost"
    assert record["ended"] - record["started"] < 5_000  # of ten seconds that it would have taken
    assert ("assistant", HELP) not in stack.remembered("long", "long")


def test_no_worker_is_not_ready(stack: Stack) -> None:
    until(lambda: answers(stack), "the API")
    until(lambda: stack.get("/readyz").json["checks"]["redis"] == "ok", "Redis")
    reply = stack.get("/readyz")
    assert (reply.status, reply.json["status"], reply.json["workers"]) == (503, "unavailable", 0)
    assert "convoq worker" in reply.json["checks"]["workers"]


def answers(stack: Stack) -> bool:
    try:
        return stack.get("/healthz").status == 200
    except OSError:
        return False
