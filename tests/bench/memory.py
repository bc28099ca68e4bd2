"""What remembering costs: `python -m tests.bench.memory`.

For each memory on a real server, with 1, 100 and 1,000 turns of history: microseconds and round trips of a load of
all turns, of the last five and of an append, and the bytes that a stored turn takes. A turn is what a support chat
has: some 80 characters asked, 320 answered, every fourth with a tool call.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import uvloop

from convoq.contract.execution import ExecutionInfo
from convoq.contract.memory import Memory, Step, ToolUse, Turn
from convoq.memory.claims import Claims
from convoq.memory.n8n_list import N8nListMemory
from convoq.memory.pools import Pools
from convoq.memory.postgres import PostgresMemory
from convoq.memory.redis_list import RedisListMemory
from convoq.redis import Argument, Pipe, Script, async_client
from tests.postgres import postgres
from tests.stack import valkey

HISTORIES = (1, 100, 1000)
ROUNDS = 200
RECORD = "convoq:exec:bench"
Open = Callable[[int], Memory]


def turn(number: int) -> Turn:
    use = ToolUse(f"call_{number}", "Calculator", '{"input":"19 * 23"}', "437")
    steps = () if number % 4 else (Step("", (use,)),)
    return Turn(f"x{number}:Agent:0:0", "How do I change it? " * 4, "Open the settings. " * 17, steps, 1.5, 2.5)


class Counted:
    """convoq's own server, with its round trips counted."""

    def __init__(self, pipe: Pipe) -> None:
        self.pipe = pipe
        self.trips = 0

    async def command(self, *arguments: Argument) -> object:
        self.trips += 1
        return await self.pipe.command(*arguments)

    async def run(self, script: Script, keys: Sequence[str], arguments: Sequence[Argument]) -> object:
        self.trips += 1
        return await self.pipe.run(script, keys, arguments)


async def microseconds(
    once: Callable[[], Awaitable[object]], rounds: int = ROUNDS, first: Callable[[], Awaitable[object]] | None = None
) -> float:
    """The median."""
    taken = []
    for _ in range(rounds):
        if first is not None:
            await first()
        begun = time.perf_counter()
        await once()
        taken.append(time.perf_counter() - begun)
    return sorted(taken)[rounds // 2] * 1e6


async def measure(
    name: str, open_at: Open, history: int, trips: Callable[[], int], size: Callable[[], Awaitable[int]]
) -> None:
    memory, last_five = open_at(max(history, 5)), open_at(5)
    await memory.replace([turn(number) for number in range(history)])
    bytes_each = await size() / history
    load = await microseconds(memory.load)
    load_five = await microseconds(last_five.load)
    before = trips()
    await memory.load()
    loads = trips() - before
    # Each append is a new turn; trimmed to the window, or so few that the history stays what it is called.
    numbers = iter(range(history, history + 10_000))
    appender = open_at(max(history, 1))
    rounds = ROUNDS if history > 100 else 20
    append = await microseconds(lambda: appender.append(turn(next(numbers))), rounds, first=appender.load)
    await appender.load()
    before = trips()
    await appender.append(turn(next(numbers)))
    row = f"{name:<24}{history:>6}{load:>10.0f}{load_five:>10.0f}{append:>10.0f}"
    print(f"{row}{loads:>8}{trips() - before:>8}{bytes_each:>8.0f}")
    await memory.clear()


async def bench(redis_url: str, fields: dict[str, Any]) -> None:
    print(f"{'':<24}{'turns':>6}{'load':>10}{'load 5':>10}{'append':>10}{'trips':>8}{'trips':>8}{'bytes':>8}")
    print(f"{'':<24}{'':>6}{'us':>10}{'us':>10}{'us':>10}{'load':>8}{'append':>8}{'a turn':>8}")
    client, pools = async_client(redis_url), Pools()
    async with Pipe(client) as pipe:
        server = Counted(pipe)
        await pipe.command("HSET", RECORD, "status", "running", "token", "t1")

        async def used(key: str) -> int:
            return int(await pipe.command("MEMORY", "USAGE", key, "SAMPLES", 0))

        def own(window: int) -> Memory:
            return RedisListMemory(server, "convoq:mem:b:s:m", window=window, ttl_s=3600, fence=(RECORD, "t1"))

        def n8n(window: int) -> Memory:
            return N8nListMemory(server, "bench", window=window, ttl_s=0, fence=(RECORD, "t1"))

        for history in HISTORIES:
            await measure(
                "Redis, convoq's format", own, history, lambda: server.trips, lambda: used("convoq:mem:b:s:m")
            )
        for history in HISTORIES:
            await measure("Redis, n8n's format", n8n, history, lambda: server.trips, lambda: used("bench"))
        table = await pools.postgres(fields, "n8n_chat_histories")
        statements = 0

        async def nothing() -> None:
            pass

        class CountedTable:
            name, layout = table.name, staticmethod(table.layout)

            async def fetch(self, query: str, *arguments: object, again: bool = True) -> list[Any]:
                nonlocal statements
                statements += 1
                return await table.fetch(query, *arguments, again=again)

        claims = Claims(ExecutionInfo("x", 1, "wf", "W", "s", "production", 0.0), nothing, pipe)

        def rows(window: int) -> Memory:
            return PostgresMemory(CountedTable(), "s", window=window, claims=claims)  # type: ignore[arg-type]

        async def relation() -> int:
            await table.fetch("VACUUM FULL n8n_chat_histories")
            (row,) = await table.fetch("SELECT pg_total_relation_size('n8n_chat_histories')")
            return int(row[0])

        for history in HISTORIES:
            await measure("PostgreSQL, n8n's table", rows, history, lambda: statements, relation)
        await pools.close()
    await client.aclose()


def main() -> None:
    with (
        tempfile.TemporaryDirectory() as folder,
        valkey(Path(folder), save="") as server,
        postgres() as fields,
        asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner,
    ):
        runner.run(bench(server.connection_url, fields))


if __name__ == "__main__":
    main()
