"""A message that kills its worker each time ends as failed, is listed with its reason, and can be run again."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from subprocess import CompletedProcess

import pytest
from aiohttp import web

from tests.cli.support import convoq
from tests.delivery.model import model_thread, model_workflow
from tests.models.server import ModelServer, delta, replies, streams
from tests.stack import Process, Stack, until

ATTEMPTS = 2
ANSWERS = streams(delta("all "), delta("good"), delta(None, "stop"))


@pytest.fixture
def stack(redis_url: str, folder: Path) -> Iterator[Stack]:
    env = {"CONVOQ_LEASE_S": "0.6", "CONVOQ_MAX_ATTEMPTS": str(ATTEMPTS)}
    stack = Stack(folder, f"{redis_url}/4", env)
    try:
        with stack.redis() as client:
            client.flushdb()
        stack.start_api()
        until(stack.answers, "the API")
        yield stack
    finally:
        stack.stop()


@pytest.fixture
def deadly(stack: Stack) -> Iterator[ModelServer]:
    """Whoever asks it is killed before it hears a word; the last in `workers` is who asks."""

    async def kill(request: web.Request) -> web.StreamResponse:
        os.kill(stack.processes[-1].popen.pid, signal.SIGKILL)
        return await ANSWERS(request)

    with model_thread(*[kill] * ATTEMPTS, ANSWERS) as server:
        yield server


def run(stack: Stack, *arguments: str) -> CompletedProcess[str]:
    return convoq(*arguments, cwd=stack.folder, env={"CONVOQ_REDIS_URL": stack.redis_url})


def killed(worker: Process) -> None:
    until(lambda: worker.popen.poll() == -signal.SIGKILL, "the message kills its worker")


def test_poison(stack: Stack, deadly: ModelServer) -> None:
    worker = stack.start_worker()
    stack.wait_ready()
    stack.install(model_workflow("poison", deadly))
    assert run(stack, "failed").stderr == "no failed executions\n"
    with stack.live("poison", "drink me", "a b") as live:
        for _ in range(ATTEMPTS):
            killed(worker)
            worker = stack.start_worker()
        *told, error, end = live.chunks()
        assert [chunk["type"] for chunk in told] == ["retry"] * (ATTEMPTS - 1)
        assert (error["code"], end["type"]) == ("worker_lost", "end")
        assert f"attempt {ATTEMPTS}" in error["content"]
    assert len(deadly.requests) == ATTEMPTS

    shown = run(stack, "failed")
    assert (shown.returncode, shown.stderr) == (0, "")
    assert all(part in shown.stdout for part in (live.execution_id, "wf-poison", "a b", "worker_lost", "attempt 2"))
    (listed,) = json.loads(run(stack, "failed", "--json").stdout)
    assert (listed["id"], listed["session"], listed["attempts"]) == (live.execution_id, "a b", ATTEMPTS)
    assert (listed["code"], listed["reason"]) == ("worker_lost", error["content"])

    again = run(stack, "retry", live.execution_id)
    assert (again.returncode, again.stderr) == (0, "")
    assert again.stdout.strip() not in ("", live.execution_id)
    record = stack.execution(again.stdout.strip())
    assert (record["status"], record["attempt"], record["session"]) == ("success", 1, "a b")
    assert stack.remembered("poison", "a b") == [("user", "drink me"), ("assistant", "all good")]
    assert run(stack, "failed").stderr == "no failed executions\n"
    assert run(stack, "retry", live.execution_id).stdout == again.stdout  # no third time
    assert stack.execution(live.execution_id)["status"] == "error"  # what became of it stays true


def test_a_message_that_others_had_joined_is_run_again_with_them(stack: Stack) -> None:
    go_on = threading.Event()

    async def hold(request: web.Request) -> web.StreamResponse:
        await asyncio.to_thread(go_on.wait, 30)
        return await ANSWERS(request)

    stack.start_worker()
    stack.wait_ready()
    with model_thread(hold, replies(401, {"error": {"message": "not today"}}), ANSWERS) as model:
        stack.install(model_workflow("merged", model, whenBusy="merge"))
        with ExitStack() as open_answers:
            first, second, third = (
                open_answers.enter_context(stack.live("merged", text, "m")) for text in ("one", "two", "three")
            )
            go_on.set()
            assert first.text() == "all good"
            assert second.execution_id == third.execution_id != first.execution_id
            for live in (second, third):
                assert [chunk["type"] for chunk in live.chunks()][-2:] == ["error", "end"]
        again = run(stack, "retry", second.execution_id)
        assert (again.returncode, again.stderr) == (0, "")
        assert stack.execution(again.stdout.strip())["status"] == "success"
        asked = [request["messages"][-1]["content"] for request in model.requests]
    assert asked == ["one", "two\n\nthree", "two\n\nthree"]
    assert [text for role, text in stack.remembered("merged", "m") if role == "user"] == ["one", "two\n\nthree"]


def test_only_what_failed_can_be_run_again(stack: Stack, deadly: ModelServer) -> None:
    unknown = run(stack, "retry", "nonsense")
    assert (unknown.returncode, unknown.stderr.count("\n")) == (1, 1)
    assert "no execution 'nonsense'" in unknown.stderr
    stack.start_worker()
    stack.wait_ready()
    with model_thread(ANSWERS) as good, model_thread(streams(delta("a"), then="hang")) as hanging:
        stack.install(model_workflow("good", good))
        stack.install(model_workflow("hangs", hanging))
        done = stack.say("good", "hello", Accept="application/x-ndjson").headers["x-execution-id"]
        refused = run(stack, "retry", done)
        assert refused.returncode == 1
        assert f"{done} has not failed: its status is 'success'" in refused.stderr
        with stack.live("hangs", "hello") as live:
            live.until_item()
            token = live.headers["x-stream-token"]
            stack.request("POST", f"/executions/{live.execution_id}/stop?token={token}")
            assert "'stopped'" in run(stack, "retry", live.execution_id).stderr
    assert run(stack, "failed").stderr == "no failed executions\n"  # a stop is no failure
