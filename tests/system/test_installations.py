"""Two installations on one Redis share nothing."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest

from convoq import keys
from tests.stack import Stack, chat_workflow, flush, until, valkey

NAMES = ("blue", "green")
MESSAGES = 500
AT_ONCE = 12


@pytest.fixture(scope="module")
def installations(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Stack]]:
    """An API and a worker each, the same workflow, the same sessions."""
    with ExitStack() as stop:
        server = stop.enter_context(valkey(tmp_path_factory.mktemp("shared"), save=""))
        flush(server.connection_url)
        stacks = {}
        for name in NAMES:
            stack = Stack(tmp_path_factory.mktemp(name), server.connection_url, {"CONVOQ_PREFIX": name})
            stop.callback(stack.stop)
            stack.start_api()
            stack.start_worker()
            stacks[name] = stack
        for stack in stacks.values():
            stack.wait_ready()
            stack.install(chat_workflow("support"))
        yield stacks


def test_no_word_crosses(installations: dict[str, Stack]) -> None:
    def converse(name: str, number: int) -> str:
        stack, session = installations[name], f"s{number}"
        assert stack.say("support", f"my name is {name}{number}", session).status == 200
        return stack.say("support", "what is my name?", session).text

    calls = [(name, number) for number in range(MESSAGES // 2) for name in NAMES]
    with ThreadPoolExecutor(2 * AT_ONCE) as pool:
        told = list(pool.map(lambda call: converse(*call), calls))
    assert told == [f"Your name is {name}{number}." for name, number in calls]
    with installations["blue"].redis() as client:
        found = [key.decode() for key in client.scan_iter(count=5000)]
        assert {key.partition(":")[0] for key in found} == set(NAMES)
        for name in NAMES:
            assert len([key for key in found if key.startswith(f"{name}:rq:job:")]) == MESSAGES
            elements = [client.lrange(key, 0, -1) for key in found if key.startswith(f"{name}:mem:")]
            other = NAMES[1 - NAMES.index(name)].encode()
            assert len(elements) == MESSAGES // 2
            assert not any(other in element for element in elements)
    kinds = {keys.kind(f"{keys.PREFIX}{key.partition(':')[2]}") for key in found}
    assert kinds <= set(keys.KINDS), "name it in keys.KINDS"


def test_commands_reach_their_own_installation_only(installations: dict[str, Stack]) -> None:
    """`rq suspend` with one's prefix leaves the other at work; a stopped execution is one's own."""

    def rq(command: str) -> None:
        environment = {**os.environ, "RQ_KEY_PREFIX": "blue:rq"}
        arguments = [sys.executable, "-m", "rq.cli", command, "--url", installations["blue"].redis_url]
        subprocess.run(arguments, env=environment, check=True, capture_output=True, timeout=30)

    rq("suspend")
    try:
        with installations["blue"].redis() as client:
            until(lambda: b"suspended" in client.hvals(client.smembers("blue:rq:workers").pop()), "blue's rests")
        assert installations["green"].say("support", "What is 6 * 7?", "after").text.endswith("42.")
    finally:
        rq("resume")
    assert installations["blue"].say("support", "What is 6 * 7?", "after").text.endswith("42.")


def test_the_other_ones_workflows_are_not_seen(installations: dict[str, Stack]) -> None:
    blue, green = (installations[name] for name in NAMES)
    blue.install(chat_workflow("only-blue"))
    assert green.say("only-blue", "hello").status == 404
    assert [one["id"] for one in green.get("/api/v1/workflows").json["data"]] == ["wf-support"]
