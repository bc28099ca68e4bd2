"""A worker that is killed or frozen: what it held is run again elsewhere, or ends with an explicit error; once."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.delivery.model import model_thread, model_workflow
from tests.models.server import ModelServer, delta, streams
from tests.stack import Process, Stack, chat_workflow, until

LEASE_S = 1.0
DETECTION_S = 5.0
HOLDS = streams(delta("one "), delta("two "), then="hang")
ANSWERS = streams(delta("all "), delta("good"), delta(None, "stop"))


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory, redis_url: str) -> Iterator[Stack]:
    """An API on a database of its own; the tests start their workers, and leave none."""
    stack = Stack(tmp_path_factory.mktemp("lost"), f"{redis_url}/2", {"CONVOQ_LEASE_S": str(LEASE_S)})
    try:
        stack.start_api()
        until(stack.answers, "the API")
        yield stack
    finally:
        stack.stop()


@pytest.fixture
def worker(stack: Stack) -> Iterator[Process]:
    """The only worker, which takes the next message. All are gone after the test."""
    worker = stack.start_worker()
    until(lambda: ready_workers(stack) == 1, "one worker")
    yield worker
    for process in stack.processes[1:]:
        if process.popen.poll() is None:
            process.popen.kill()
            process.popen.wait(5)
    until(lambda: ready_workers(stack) == 0, "no worker")


def ready_workers(stack: Stack) -> int:
    count: int = stack.get("/readyz").json["workers"]
    return count


@pytest.fixture
def holding() -> Iterator[ModelServer]:
    """The first call says two words and hangs, all others answer."""
    with model_thread(HOLDS, ANSWERS) as server:
        yield server


@pytest.fixture
def silent() -> Iterator[ModelServer]:
    """The first call says nothing, all others answer."""
    with model_thread(streams(then="hang"), ANSWERS) as server:
        yield server


def settled(stack: Stack, path: str) -> dict[str, Any]:
    """Where RQ and convoq keep the traces of that chat's executions."""
    with stack.redis() as client:
        until(lambda: not client.zcard("convoq:lease"), "no lease")
        return {
            "running": client.zrange("convoq:rq:wip:chat", 0, -1),
            "queued": client.lrange("convoq:rq:queue:chat", 0, -1)
            + client.lrange("convoq:rq:queue:chat:intermediate", 0, -1),
            "waiting": client.zrange("convoq:waiting", 0, -1),
            "locked": client.keys(f"convoq:rq:rl:*{path}*"),
        }


QUIET: dict[str, Any] = {"running": [], "queued": [], "waiting": [], "locked": []}


def test_killed_before_the_first_chunk_it_runs_again_on_another(
    stack: Stack, worker: Process, silent: ModelServer
) -> None:
    stack.install(model_workflow("early", silent))
    with stack.live("early", "go on", "s") as live:
        until(lambda: silent.requests, "the model was asked")
        killed = time.monotonic()
        worker.popen.kill()
        other = stack.start_worker()
        chunks = live.chunks()
        assert next(chunks) == {"type": "retry", "attempt": 2}
        assert time.monotonic() - killed < DETECTION_S
        rest = list(chunks)
        assert [chunk["seq"] for chunk in rest] == list(range(len(rest)))
        assert "".join(chunk["content"] for chunk in rest if chunk["type"] == "item") == "all good"
    record = stack.execution(live.execution_id)
    assert (record["status"], record["attempt"]) == ("success", 2)
    assert f".{other.popen.pid}." in record["worker"]
    assert stack.remembered("early") == [("user", "go on"), ("assistant", "all good")]
    assert settled(stack, "early") == QUIET
    with stack.redis() as client:
        assert client.hget(f"convoq:rq:job:{live.execution_id}", "status") == b"finished"
        assert client.zscore("convoq:rq:finished:chat", live.execution_id)
        assert not client.keys(f"convoq:rq:executions:{live.execution_id}")


def test_killed_in_mid_stream_it_ends_with_an_error_and_the_session_goes_on(
    stack: Stack, worker: Process, holding: ModelServer
) -> None:
    stack.install(model_workflow("middle", holding))
    with stack.live("middle", "go on", "s") as live, stack.live("middle", "and then?", "s") as following:
        read = [live.until_item(), live.until_item()]
        killed = time.monotonic()
        worker.popen.kill()
        *_, error, end = live.chunks()
        assert time.monotonic() - killed < DETECTION_S
        assert (error["type"], error["code"], end["type"]) == ("error", "worker_lost", "end")
        assert (error["seq"], end["seq"]) == (read[-1]["seq"] + 1, read[-1]["seq"] + 2)
        stack.start_worker()
        assert following.text() == "all good"
    record = stack.execution(live.execution_id)
    assert (record["status"], record["error"]["code"], record["attempt"]) == ("error", "worker_lost", 1)
    assert record["worker"] in record["error"]["message"]
    assert stack.remembered("middle") == [("user", "and then?"), ("assistant", "all good")]
    assert settled(stack, "middle") == QUIET
    with stack.redis() as client:
        assert client.hget(f"convoq:exec:{live.execution_id}", "partial") == b"one two "
        assert client.hget(f"convoq:rq:job:{live.execution_id}", "status") == b"failed"
        assert client.zscore("convoq:rq:failed:chat", live.execution_id)


def test_five_seconds_are_enough_with_the_usual_lease(redis_url: str, folder: Path, holding: ModelServer) -> None:
    stack = Stack(folder, f"{redis_url}/3")
    try:
        stack.start_api()
        worker = stack.start_worker()
        stack.wait_ready()
        stack.install(model_workflow("usual", holding))
        with stack.live("usual", "go on", "s") as live:
            live.until_item()
            worker.popen.kill()
            killed = time.monotonic()
            assert list(live.chunks())[-2]["code"] == "worker_lost"
            assert time.monotonic() - killed < DETECTION_S
    finally:
        stack.stop()


def test_one_who_reads_no_stream_gets_the_answer_of_the_next_attempt(
    stack: Stack, worker: Process, holding: ModelServer
) -> None:
    """Words that nobody was sent were not seen: the message may run again."""
    stack.install(model_workflow("json", holding, mode="lastNode"))
    with ThreadPoolExecutor(1) as pool:
        reply = pool.submit(stack.say, "json", "go on")
        until(lambda: holding.requests, "the model was asked")
        worker.popen.kill()
        stack.start_worker()
        answer = reply.result(15)
    assert (answer.status, answer.json) == (200, {"output": "all good"})
    record = stack.execution(answer.headers["x-execution-id"])
    assert (record["status"], record["attempt"]) == ("success", 2)
    assert stack.remembered("json") == [("user", "go on"), ("assistant", "all good")]


def test_a_frozen_worker_that_wakes_up_is_fenced(stack: Stack, worker: Process, holding: ModelServer) -> None:
    """Its chunks and its turn come too late: the stream has ended, the next turn has run."""
    stack.install(chat_workflow("frozen", delay_ms=50))
    with stack.live("frozen", "hello", "s") as live:
        first = live.until_item()
        worker.popen.send_signal(signal.SIGSTOP)
        error, end = list(live.chunks())[-2:]
        assert (error["code"], end["type"]) == ("worker_lost", "end")
        other = stack.start_worker()
        assert stack.say("frozen", "my name is Ada").text == "Nice to meet you, Ada."
        worker.popen.send_signal(signal.SIGCONT)
        until(lambda: b"taken over" in worker.log.read_bytes(), "the old attempt notices")
        log = stack.get(f"/executions/{live.execution_id}/stream?token={live.headers['x-stream-token']}").lines
        assert first in log
        assert [line["type"] for line in log][-2:] == ["error", "end"]
    assert stack.say("frozen", "what is my name?").text == "Your name is Ada."
    users = [text for role, text in stack.remembered("frozen") if role == "user"]
    assert users == ["my name is Ada", "what is my name?"]
    until(lambda: ready_workers(stack) == 2, "both take messages")
    assert other.popen.poll() is None
    assert settled(stack, "frozen") == QUIET


def test_a_frozen_attempt_does_not_disturb_the_one_that_took_over(
    stack: Stack, worker: Process, silent: ModelServer
) -> None:
    stack.install(model_workflow("twice", silent))
    with stack.live("twice", "go on", "s") as live:
        until(lambda: silent.requests, "the model was asked")
        worker.popen.send_signal(signal.SIGSTOP)
        stack.start_worker()
        rest = [chunk for chunk in live.chunks() if chunk["type"] != "retry"]
        assert [chunk["seq"] for chunk in rest] == list(range(len(rest)))
        worker.popen.send_signal(signal.SIGCONT)
        until(lambda: b"taken over" in worker.log.read_bytes(), "the old attempt notices")
    record = stack.execution(live.execution_id)
    assert (record["status"], record["attempt"]) == ("success", 2)
    assert stack.remembered("twice") == [("user", "go on"), ("assistant", "all good")]


def test_what_tools_had_answered_is_kept(stack: Stack, worker: Process) -> None:
    stack.install(chat_workflow("tools", delay_ms=150))
    with stack.live("tools", "What is 19 * 23?", "s") as live:
        live.until_item()
        worker.popen.kill()
        assert list(live.chunks())[-2]["code"] == "worker_lost"
    data = stack.execution(live.execution_id)["data"]
    assert "437" in json.dumps(data["Calculator"] if "Calculator" in data else data)


def test_a_frozen_worker_does_not_count_as_ready(stack: Stack, worker: Process) -> None:
    worker.popen.send_signal(signal.SIGSTOP)
    until(lambda: stack.get("/readyz").status == 503, "not ready", timeout_s=LEASE_S + DETECTION_S)
    assert "worker" in stack.get("/readyz").json["checks"]["workers"]
    worker.popen.send_signal(signal.SIGCONT)
    until(lambda: stack.get("/readyz").status == 200, "ready again")


def test_a_job_that_was_taken_but_never_started_comes_back(stack: Stack, worker: Process) -> None:
    """A worker frozen while it waits is still given the next job by Redis."""
    stack.install(chat_workflow("stray"))
    worker.popen.send_signal(signal.SIGSTOP)
    with stack.live("stray", "my name is Ada", "s") as live:
        with stack.redis() as client:
            until(lambda: client.llen("convoq:rq:queue:chat:intermediate"), "the frozen one was given it", timeout_s=5)
        stack.start_worker()
        assert live.text() == "Nice to meet you, Ada."
    worker.popen.send_signal(signal.SIGCONT)
    assert stack.execution(live.execution_id)["attempt"] == 1
    assert settled(stack, "stray") == QUIET


def test_the_api_process_that_relays_may_die(stack: Stack, worker: Process) -> None:
    """Its client comes back, by another API process, with the last `seq` it saw."""
    stack.install(chat_workflow("relay", delay_ms=60))
    other = Stack(stack.folder / "other", stack.redis_url, stack.env)
    other.folder.mkdir()
    try:
        api = other.start_api()
        until(other.answers, "the second API")
        with other.live("relay", "hello", "s") as live:
            read = [next(live.chunks()) for _ in range(5)]
            api.popen.kill()
        query = f"token={live.headers['x-stream-token']}&after={read[-1]['seq']}"
        rest = stack.get(f"/executions/{live.execution_id}/stream?{query}").lines
        lines = [line for line in (*read, *rest) if "seq" in line]
        assert [line["seq"] for line in lines] == list(range(len(lines)))
        assert lines[-1]["type"] == "end"
    finally:
        other.stop()
    assert stack.execution(live.execution_id)["status"] == "success"
