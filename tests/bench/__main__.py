"""`make bench`: what convoq adds to a model, on this machine, in one run.

Starts the product (embedded Valkey, one API process, one worker) beside its own loopback model server, and sends
messages from a process of its own, first to the model directly, then through convoq. Exit code 1 where any answer
failed. `--quick` sends few messages; `--profile` records flame graphs of API and worker into bench-out/ with py-spy.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shutil
import sys
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import quantiles
from typing import Any

import aiohttp

from convoq.cli.connect import connected
from convoq.cli.embedded import EmbeddedValkey, redis_url
from convoq.engine.reading import parse_workflow
from convoq.nodes.registry import REGISTRY
from convoq.store.workflows import WorkflowStore
from tests.bench.load import Plan, Result
from tests.bench.processes import Process, free_port, python

ROOT = Path(__file__).parents[2]
OUT = ROOT / "bench-out"
TOKENS, PACED_TOKENS, PACE_MS = 20, 50, 20
WORDS, STAMPS = f"words-{TOKENS}-0", f"stamps-{PACED_TOKENS}-{PACE_MS}"
MESSAGES = {1: 200, 20: 3000, 100: 4000}
QUICK = {1: 10, 20: 60, 100: 100}
READY_S = 60.0


@dataclass(frozen=True)
class Product:
    model_url: str
    api_url: str
    processes: Sequence[Process]


@dataclass(frozen=True)
class Measured:
    plan: Plan
    result: Result
    cpu_ms: Mapping[str, float]

    @property
    def rate(self) -> float:
        return len(self.result.first) / self.result.seconds

    def first_ms(self, percent: int) -> float:
        return percentile(self.result.first, percent)


def percentile(values: Sequence[float], percent: int) -> float:
    return quantiles(values, n=100, method="inclusive")[percent - 1] if len(values) > 1 else float("nan")


def definition(model: str) -> dict[str, Any]:
    """Chat Trigger -> AI Agent with an OpenAI Chat Model and a Simple Memory."""
    kind = "@n8n/n8n-nodes-langchain."

    def node(name: str, suffix: str, version: float, **parameters: object) -> dict[str, Any]:
        return {
            "id": name,
            "name": name,
            "type": kind + suffix,
            "typeVersion": version,
            "position": [0, 0],
            "parameters": parameters,
        }

    trigger = node("Chat", "chatTrigger", 1.3, public=True, options={"responseMode": "streaming"})
    trigger["webhookId"] = model
    agent = node("Agent", "agent", 2.2)
    chat_model = node("Model", "lmChatOpenAi", 1.2, model={"__rl": True, "mode": "id", "value": model})
    memory = node("Memory", "memoryBufferWindow", 1.3)
    links = {"Chat": "main", "Model": "ai_languageModel", "Memory": "ai_memory"}
    return {
        "id": f"bench-{model}",
        "name": f"bench {model}",
        "active": True,
        "nodes": [trigger, agent, chat_model, memory],
        "connections": {
            source: {link: [[{"node": "Agent", "type": link, "index": 0}]]} for source, link in links.items()
        },
    }


@asynccontextmanager
async def product() -> AsyncIterator[Product]:
    api_port, model_port = free_port(), free_port()
    async with AsyncExitStack() as stack:
        data = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="convoq-bench-")))
        users_fd, alive_fd = os.pipe()
        stack.callback(os.close, users_fd)
        stack.callback(os.close, alive_fd)
        valkey = EmbeddedValkey(data)
        stack.push_async_callback(valkey.stop)
        await valkey.start(users_fd)
        async with connected(redis_url(data)) as client:
            for name in (WORDS, STAMPS):
                await WorkflowStore(client).save(parse_workflow(definition(name), source="bench", registry=REGISTRY))
        environment = {
            "CONVOQ_REDIS_URL": redis_url(data),
            "CONVOQ_LOG_LEVEL": "warning",
            "OPENAI_API_KEY": "bench",
            "OPENAI_BASE_URL": f"http://127.0.0.1:{model_port}/v1",
        }
        model = await stack.enter_async_context(python("model", ["-m", "tests.bench.model", str(model_port)]))
        worker = await stack.enter_async_context(
            python("worker", ["-m", "convoq.cli.entry", "worker", "--concurrency", "100"], environment)
        )
        api = await stack.enter_async_context(
            python("API", ["-m", "convoq.cli.entry", "api", "--port", str(api_port)], environment)
        )
        api_url = f"http://127.0.0.1:{api_port}"
        await _ready(api_url)
        yield Product(
            f"http://127.0.0.1:{model_port}/v1/chat/completions",
            f"{api_url}/webhook",
            [api, worker, Process("Valkey", valkey.pid), model],
        )


async def _ready(api_url: str) -> None:
    async with asyncio.timeout(READY_S), aiohttp.ClientSession() as http:
        while True:
            try:
                async with http.get(f"{api_url}/readyz") as answer:
                    if answer.status == 200:
                        return
            except aiohttp.ClientError:
                pass
            await asyncio.sleep(0.05)


async def measure(product: Product, model: str, users: int, messages: int, tokens: int, *, direct: bool) -> Measured:
    url = product.model_url if direct else f"{product.api_url}/{model}"
    plan = Plan(url, users, messages, tokens, model, direct, run=os.urandom(4).hex())
    before = {process.name: process.cpu_ms() for process in product.processes}
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.bench.load", json.dumps(asdict(plan)), stdout=asyncio.subprocess.PIPE, cwd=ROOT
    )
    output, _ = await child.communicate()
    if child.returncode:
        raise SystemExit(f"the load generator ended with exit code {child.returncode}")
    result = Result(**json.loads(output))
    done = max(1, len(result.first))
    return Measured(plan, result, {p.name: (p.cpu_ms() - before[p.name]) / done for p in product.processes})


@asynccontextmanager
async def profiled(product: Product, wanted: bool) -> AsyncIterator[None]:
    """py-spy on API and worker for the block's length, where it is installed."""
    spy = shutil.which("py-spy") if wanted else None
    if wanted and spy is None:
        print("--profile: py-spy is not installed, so nothing is recorded", file=sys.stderr)
    OUT.mkdir(exist_ok=True)
    children = [
        await asyncio.create_subprocess_exec(
            *(spy, "record", "--rate", "200", "--output", str(OUT / f"{process.name}.svg"), "--pid", str(process.pid))
        )
        for process in product.processes
        if spy and process.name in ("API", "worker")
    ]
    yield
    for child in children:
        child.send_signal(2)  # SIGINT: py-spy writes its graph
        await child.wait()


def table(title: str, header: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    cells = [[f"{cell:.1f}" if isinstance(cell, float) else str(cell) for cell in row] for row in (header, *rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    print(f"\n{title}")
    for row in cells:
        print("  " + "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)))


async def bench(*, quick: bool, profile: bool) -> int:
    """Print the tables; the number of failed answers."""
    failed: list[str] = []
    async with product() as running:
        await measure(running, WORDS, 20, 40, TOKENS, direct=False)  # connections, scripts, caches
        words, relayed = [], []
        for users, messages in (QUICK if quick else MESSAGES).items():
            direct = await measure(running, WORDS, users, messages, TOKENS, direct=True)
            async with profiled(running, profile and users == 20):
                through = await measure(running, WORDS, users, messages, TOKENS, direct=False)
            words.append((direct, through))
            relayed.append((users, through))
        paced_direct = await measure(running, STAMPS, 100, 100, PACED_TOKENS, direct=True)
        paced = await measure(running, STAMPS, 100, 100 if quick else 300, PACED_TOKENS, direct=False)
        failed += [fault for pair in (*words, (paced_direct, paced)) for one in pair for fault in one.result.failed]

        table(
            f"{TOKENS}-token answers: first chunk in ms, messages a second",
            [
                "users",
                "direct p50",
                "p99",
                "convoq p50",
                "p99",
                "added p50",
                "direct msg/s",
                "convoq msg/s",
                "tok/s",
                "bad",
            ],
            [
                (
                    *(through.plan.users, direct.first_ms(50), direct.first_ms(99)),
                    *(through.first_ms(50), through.first_ms(99), through.first_ms(50) - direct.first_ms(50)),
                    *(direct.rate, through.rate, through.rate * TOKENS),
                    len(direct.result.failed) + len(through.result.failed),
                )
                for direct, through in words
            ],
        )
        table(
            f"100 users at once, {PACED_TOKENS}-token answers, {PACE_MS} ms apart: ms from made to received, per token",
            ["", "first chunk p50", "p99", "token late p50", "p99", f"late > {PACE_MS} ms", "tok/s", "bad"],
            [
                (
                    *(name, one.first_ms(50), one.first_ms(99)),
                    *(percentile(one.result.late, 50), percentile(one.result.late, 99)),
                    f"{sum(late > PACE_MS for late in one.result.late) / max(1, len(one.result.late)):.1%}",
                    *(one.rate * PACED_TOKENS, len(one.result.failed)),
                )
                for name, one in (("direct", paced_direct), ("convoq", paced))
            ],
        )
        table(
            f"CPU ms per {TOKENS}-token message through convoq, by process",
            ["users", *(process.name for process in running.processes)],
            [(users, *(f"{ms:.2f}" for ms in one.cpu_ms.values())) for users, one in relayed],
        )
        table(
            "memory by process, MB (RSS)",
            [process.name for process in running.processes],
            [[process.rss_mb() for process in running.processes]],
        )
    for fault in failed[:5]:
        print(f"failed: {fault}", file=sys.stderr)
    print(f"\n{len(failed)} failed answers")
    return len(failed)


def main() -> None:
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few messages")
    parser.add_argument("--profile", action="store_true", help="flame graphs into bench-out/ (needs py-spy)")
    options = parser.parse_args()
    sys.exit(bool(asyncio.run(bench(quick=options.quick, profile=options.profile))))


if __name__ == "__main__":
    main()
