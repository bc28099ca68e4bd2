"""The worker as RQ's own tools see it: registries, results, `rq info`, stop-job, suspend and resume, timeouts."""

from __future__ import annotations

import os
import subprocess
import sys
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import datetime

import msgpack
import pytest
import redis
from rq import Queue, Worker
from rq.command import send_stop_job_command
from rq.job import Job, JobStatus
from rq.registry import FailedJobRegistry, FinishedJobRegistry, StartedJobRegistry

from convoq.delivery.admission import MsgpackSerializer
from tests.stack import Stack, chat_workflow, until

SECRET = "tell nobody that 7 * 6 is my PIN"
TIMEOUT_S = 1
DB = "7"
QUEUE = "convoq:rq:queue:chat"
DEAD_MODEL = {
    "type": "@n8n/n8n-nodes-langchain.lmChatOpenAi",
    "typeVersion": 1.2,
    "parameters": {"model": "m", "options": {"baseURL": "http://127.0.0.1:9/v1", "maxRetries": 0}},
}


@pytest.fixture(scope="module")
def stack(redis_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """One worker whose chores come often, and whose executions may take a second."""
    env = {"CONVOQ_LEASE_S": "0.3", "CONVOQ_JOB_TIMEOUT_S": str(TIMEOUT_S)}
    stack = Stack(tmp_path_factory.mktemp("rq"), f"{redis_url}/{DB}", env)
    try:
        stack.start_api()
        stack.start_worker()
        stack.wait_ready()
        stack.install(chat_workflow("quick"))
        stack.install(chat_workflow("slow", delay_ms=60))
        stack.install(chat_workflow("dead", model=DEAD_MODEL))
        yield stack
    finally:
        stack.stop()


@pytest.fixture
def client(stack: Stack) -> Iterator[redis.Redis]:
    with stack.redis() as client:
        yield client


def job_of(execution_id: str, client: redis.Redis) -> Job:
    return Job.fetch(execution_id, connection=client, serializer=MsgpackSerializer)


def queue(client: redis.Redis) -> Queue:
    return Queue("chat", connection=client, serializer=MsgpackSerializer)


def rq_cli(stack: Stack, *arguments: str) -> str:
    """RQ's command line tool, as its users start it."""
    command = [sys.executable, "-m", "rq.cli", *arguments, "--url", stack.redis_url]
    environment = {**os.environ, "RQ_KEY_PREFIX": "convoq:rq"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=30, check=True)
    return done.stdout


def test_a_good_answer_is_a_finished_job(stack: Stack, client: redis.Redis) -> None:
    with stack.live("slow", "What is 19 * 23?", "good") as live:
        live.until_item()
        execution_id = live.execution_id
        running = job_of(execution_id, client)
        assert running.get_status() is JobStatus.STARTED
        assert execution_id in StartedJobRegistry(queue=queue(client)).get_job_ids()
        (worker,) = Worker.all(connection=client, serializer=MsgpackSerializer)
        assert running.worker_name == worker.name
        assert live.text().endswith("returned 437.")
    job = job_of(execution_id, client)
    assert job.get_status() is JobStatus.FINISHED
    assert execution_id in FinishedJobRegistry(queue=queue(client)).get_job_ids()
    assert StartedJobRegistry(queue=queue(client)).get_job_ids() == []
    result = job.latest_result()
    assert result is not None and result.type.name == "SUCCESSFUL"
    assert job.return_value() == {"status": "success"}
    assert isinstance(job.started_at, datetime) and isinstance(job.ended_at, datetime)
    assert job.started_at <= job.ended_at
    assert 0 < client.ttl(job.key) <= 900
    assert job.get_executions() == []


def test_a_failed_answer_is_a_failed_job_without_the_users_words(stack: Stack, client: redis.Redis) -> None:
    reply = stack.say("dead", SECRET, "bad")
    error, end = reply.lines[-2:]
    assert (error["type"], error["code"], end["type"]) == ("error", "model_failed", "end")
    execution_id = reply.headers["x-execution-id"]
    job = job_of(execution_id, client)
    assert job.get_status() is JobStatus.FAILED
    assert execution_id in FailedJobRegistry(queue=queue(client)).get_job_ids()
    assert StartedJobRegistry(queue=queue(client)).get_job_ids() == []
    result = job.latest_result()
    assert result is not None and result.type.name == "FAILED"
    assert result.exc_string == error["content"] == stack.execution(execution_id)["error"]["message"]
    for shown in (job.description, result.exc_string, job.meta):
        assert "PIN" not in str(shown)
    assert 0 < client.ttl(job.key) <= 86_400


def test_a_job_is_msgpack_data(stack: Stack, client: redis.Redis) -> None:
    execution_id = stack.say("quick", "What is 19 * 23?", "data").headers["x-execution-id"]
    job = job_of(execution_id, client)
    raw = client.hget(job.key, "data")
    assert isinstance(raw, bytes)
    name, _instance, (first, request), _kwargs = msgpack.unpackb(zlib.decompress(raw))
    assert (name, first, request["session_id"]) == ("convoq.worker.job.run", execution_id, "data")
    assert request["item"]["chatInput"] == "What is 19 * 23?"


def test_only_a_convoq_worker_can_run_a_job(stack: Stack, client: redis.Redis) -> None:
    """RQ's own worker fails the job with a message that says which one to start."""
    job = job_of(stack.say("quick", "hello", "plain rq").headers["x-execution-id"], client)
    with pytest.raises(Exception, match="needs a convoq worker"):
        job.func(*job.args, **job.kwargs)


def test_the_workers_statistics_count(stack: Stack, client: redis.Redis) -> None:
    (before,) = Worker.all(connection=client, serializer=MsgpackSerializer)
    stack.say("quick", "hello", "counted")
    stack.say("dead", "hello", "counted")
    (after,) = Worker.all(connection=client, serializer=MsgpackSerializer)
    assert after.successful_job_count == before.successful_job_count + 1
    assert after.failed_job_count == before.failed_job_count + 1
    assert after.total_working_time > before.total_working_time


def test_rq_info_shows_queue_and_worker(stack: Stack, client: redis.Redis) -> None:
    (worker,) = Worker.all(connection=client, serializer=MsgpackSerializer)
    finished, failed = (len(r(queue=queue(client)).get_job_ids()) for r in (FinishedJobRegistry, FailedJobRegistry))
    assert finished and failed
    shown_queue, shown_worker = rq_cli(stack, "info", "--raw").splitlines()
    assert shown_queue == f"queue chat 0, 0 executing, {finished} finished, {failed} failed"
    assert shown_worker.startswith(f"worker {worker.name} ")
    assert shown_worker.endswith(f" idle chat. jobs: {worker.successful_job_count} finished, {failed} failed")


def test_rqs_stop_command_ends_a_running_answer(stack: Stack, client: redis.Redis) -> None:
    with stack.live("slow", "hello", "stopped") as live:
        first = live.until_item()
        execution_id = live.execution_id
        send_stop_job_command(client, execution_id, serializer=MsgpackSerializer)
        *before, error, end = live.chunks()
    assert (error["type"], error["code"], end["type"]) == ("error", "stopped", "end")
    assert error["content"] == "stopped on request"
    assert error["metadata"]["nodeName"] == end["metadata"]["nodeName"] == "AI Agent"
    record = stack.execution(execution_id)
    assert (record["status"], record["error"]["code"]) == ("stopped", "stopped")
    assert record["ended"] - record["started"] < TIMEOUT_S * 1000
    assert job_of(execution_id, client).get_status() is JobStatus.STOPPED
    assert StartedJobRegistry(queue=queue(client)).get_job_ids() == []
    told = "".join(chunk["content"] for chunk in before if chunk["type"] == "item")
    assert stack.remembered("slow", "stopped") == [("user", "hello"), ("assistant", first["content"] + told)]
    assert stack.say("quick", "What is 19 * 23?", "stopped").text.endswith("returned 437.")


def test_a_stopped_turn_frees_its_session(stack: Stack, client: redis.Redis) -> None:
    with stack.live("slow", "hello", "freed") as first:
        first.until_item()
        with stack.live("slow", "What is 19 * 23?", "freed") as second:
            send_stop_job_command(client, first.execution_id, serializer=MsgpackSerializer)
            assert second.text() == "Based on the tools: Calculator returned 437."


@pytest.mark.parametrize("accept", ["application/x-ndjson", "application/json"])
def test_an_execution_may_take_only_so_long(stack: Stack, client: redis.Redis, accept: str) -> None:
    reply = stack.say("slow", "hello", f"timeout {accept}", Accept=accept)
    if accept == "application/json":
        assert (reply.status, reply.json["code"]) == (504, "timed_out")
        message = reply.json["message"]
    else:
        error, end = reply.lines[-2:]
        assert (error["type"], error["code"], end["type"]) == ("error", "timed_out", "end")
        assert [line["seq"] for line in reply.lines] == list(range(len(reply.lines)))
        message = error["content"]
    assert message == f"the execution took longer than {TIMEOUT_S} s"
    execution_id = reply.headers["x-execution-id"]
    record = stack.execution(execution_id)
    assert TIMEOUT_S * 1000 <= record["ended"] - record["started"] < TIMEOUT_S * 1000 + 700
    assert job_of(execution_id, client).get_status() is JobStatus.FAILED
    assert stack.remembered("slow", f"timeout {accept}") == []


@contextmanager
def suspended(stack: Stack, client: redis.Redis) -> Iterator[None]:
    """`rq suspend`, until the worker waits for no job any more."""
    rq_cli(stack, "suspend")
    try:
        until(lambda: states(client) == ["suspended"], "the worker's pause")
        until(lambda: not [c for c in client.client_list() if "b" in c["flags"] and c["db"] == DB], "its last look")
        yield
    finally:
        rq_cli(stack, "resume")
        until(lambda: states(client) == ["idle"], "the worker's return")


def states(client: redis.Redis) -> list[str]:
    return [worker.get_state() for worker in Worker.all(connection=client, serializer=MsgpackSerializer)]


def test_rq_suspend_and_resume(stack: Stack, client: redis.Redis) -> None:
    with ExitStack() as answers:
        with suspended(stack, client):
            waiting = answers.enter_context(stack.live("quick", "What is 19 * 23?", "suspended"))
            assert client.lrange(QUEUE, 0, -1) == [waiting.execution_id.encode()]
        assert waiting.text().endswith("returned 437.")


def test_a_job_that_was_taken_but_never_claimed_returns(stack: Stack, client: redis.Redis) -> None:
    """What a worker leaves that dies between taking a job and claiming it."""
    with ExitStack() as answers:
        with suspended(stack, client):
            waiting = answers.enter_context(stack.live("quick", "What is 19 * 23?", "stray"))
            assert client.lmove(QUEUE, f"{QUEUE}:intermediate", "LEFT", "RIGHT") == waiting.execution_id.encode()
            until(lambda: client.lrange(QUEUE, 0, -1) == [waiting.execution_id.encode()], "its return to the queue")
        assert waiting.text().endswith("returned 437.")
    assert stack.execution(waiting.execution_id)["attempt"] == 1
    assert client.llen(f"{QUEUE}:intermediate") == 0
