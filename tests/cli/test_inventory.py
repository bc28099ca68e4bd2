"""`convoq redis`, and who is there."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest

from convoq import keys
from convoq.presence import Process, mixed, processes, say_present
from convoq.redis import Pipe, async_client
from tests.cli.support import convoq
from tests.stack import Stack, chat_workflow, until, valkey

OTHER = Process("0.0.9", "api", "elsewhere", 7)


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """The product with something of most kinds, beside keys of somebody else."""
    with valkey(tmp_path_factory.mktemp("valkey"), save="") as server:
        stack = Stack(tmp_path_factory.mktemp("product"), server.connection_url)
        try:
            with stack.redis() as client:
                client.set("somebody-elses", "x")
                client.set("convoqish:lease", "x")
            stack.start_api()
            stack.start_worker()
            stack.wait_ready()
            stack.install(chat_workflow("support"))
            assert stack.say("support", "What is 6 * 7?", idempotency_key="k").status == 200
            yield stack
        finally:
            stack.stop()


def test_what_convoq_holds(stack: Stack, tmp_path: Path) -> None:
    listed = convoq("redis", "--json", cwd=tmp_path, env={"CONVOQ_REDIS_URL": stack.redis_url})
    assert listed.returncode == 0, listed.stderr
    rows = {row["kind"]: row for row in json.loads(listed.stdout)}
    assert {"wf", "exec", "exec log", "mem", "thread", "once", "rq job", "processes", "workers"} <= set(rows)
    assert all(row["what"] for row in rows.values()), "name it in keys.KINDS"
    assert rows["wf"]["lasting"] == rows["wf"]["count"] == 3
    assert rows["wf"]["oldest"].startswith("convoq:wf:") and rows["wf"]["idle_s"] >= 0
    for kind in ("exec", "exec log", "mem", "thread", "once", "rq job"):
        assert (rows[kind]["lasting"], rows[kind]["oldest"]) == (0, None)
    with stack.redis() as client:
        own = list(client.scan_iter("convoq:*"))
        memory = next(key for key in own if key.startswith(b"convoq:mem:"))
        assert rows["mem"]["size"] == client.memory_usage(memory)
    assert sum(row["count"] for row in rows.values()) == len(own)
    assert [row["size"] for row in rows.values()] == sorted((row["size"] for row in rows.values()), reverse=True)


def test_the_table_for_people(stack: Stack, tmp_path: Path) -> None:
    listed = convoq("redis", cwd=tmp_path, env={"CONVOQ_REDIS_URL": stack.redis_url})
    lines = listed.stdout.splitlines()
    assert lines[0].split() == "kind what keys bytes without TTL the oldest of these".split()
    assert any(line.split()[:2] == ["wf", "workflows"] and "untouched for" in line for line in lines)
    assert lines[-1].split()[:2] == ["all", "convoq:*"]
    assert "somebody-elses" not in listed.stdout and "convoqish" not in listed.stdout


def test_no_keys(stack: Stack, tmp_path: Path) -> None:
    env = {"CONVOQ_REDIS_URL": stack.redis_url, "CONVOQ_PREFIX": "empty"}
    listed = convoq("redis", cwd=tmp_path, env=env)
    assert (listed.returncode, listed.stdout, listed.stderr) == (0, "", "no keys begin with empty:\n")


def test_processes_are_there_until_they_end(stack: Stack) -> None:
    async def there() -> list[Process]:
        async with async_client(stack.redis_url) as client:
            return list(await processes(client))

    found = asyncio.run(there())
    assert [(process.role, process.pid) for process in found] == [
        (role, process.popen.pid) for role, process in zip(("api", "worker"), stack.processes, strict=True)
    ]
    assert mixed(found) is None
    extra = stack.start_worker()
    until(lambda: len(asyncio.run(there())) == 3, "the third is there")
    assert extra.stop() == 0
    assert asyncio.run(there()) == found


def test_another_version_under_the_same_prefix_is_told_of(stack: Stack) -> None:
    async def another(say: str) -> str | None:
        async with async_client(stack.redis_url) as client, Pipe(client) as pipe:
            there = asyncio.create_task(say_present(pipe, OTHER))
            try:
                await asyncio.sleep(0)  # it begins
                await pipe.command("PING")  # what was sent before is done, too
                found = await processes(client)
                assert OTHER in found
                worker = await asyncio.to_thread(stack.start_worker)
                await asyncio.to_thread(until, lambda: say in worker.log.read_text(), "the log tells", timeout_s=30)
                await asyncio.to_thread(worker.stop)
                return mixed(found)
            finally:
                there.cancel()
                await asyncio.gather(there, return_exceptions=True)

    told = asyncio.run(another("versions are mixed"))
    assert told is not None
    assert "0.0.9" in told and "'convoq'" in told and "api elsewhere.7 (0.0.9)" in told and "CONVOQ_PREFIX" in told
    with stack.redis() as client:
        members = cast("list[bytes]", client.zrange(keys.PROCESSES, 0, -1))
    assert b"elsewhere" not in b"".join(members)


def test_who_asks_has_a_version_too() -> None:
    assert mixed([], "0.1.0") is None
    assert mixed([OTHER], "0.0.9") is None
    assert "0.0.9 and 0.1.0" in str(mixed([OTHER], "0.1.0"))
