"""A server that comes back as it was a moment ago gets what it lost once more, in order, before anything else."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager

import pytest

from convoq.redis import Pipe, Script, async_client
from convoq.redis.journal import KEEP_BYTES, KEEP_S, Journal
from tests.server import Server
from tests.stream.support import eventually

SOURCE = b"""
if redis.call('LLEN', KEYS[1]) ~= tonumber(ARGV[1]) then
    return 0
end
redis.call('RPUSH', KEYS[1], ARGV[1])
return 1
"""
"""Appends the n-th element where n - 1 are there: what it does depends on what was done before, by whomever."""
NEXT = Script("next", SOURCE, hashlib.sha1(SOURCE, usedforsecurity=False).hexdigest(), again=True)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    server = Server.durable(tmp_path_factory.mktemp("journal"))
    yield server
    server.kill()


@asynccontextmanager
async def pipes(server: Server, count: int) -> AsyncIterator[list[Pipe]]:
    """As many as there are processes."""
    async with AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(async_client(server.url)) for _ in range(count)]
        yield [await stack.enter_async_context(Pipe(client)) for client in clients]


def test_what_several_wrote_is_there_again_in_its_order(server: Server) -> None:
    async def run() -> None:
        async with pipes(server, 3) as (one, two, three):
            for round_ in range(2):
                list_, other = f"list{round_}", f"other{round_}"
                for k in range(10):
                    await one.run(NEXT, [list_], [k])
                before = server.written
                for k in range(10, 40):
                    await (two if 15 <= k < 30 else one).run(NEXT, [list_], [k])
                await three.command("SET", other, 1)  # says of itself nothing of being run again
                await asyncio.to_thread(server.roll_back, before)
                assert await two.command("LRANGE", list_, 0, -1) == [b"%d" % k for k in range(40)]
                assert not await three.command("EXISTS", other)
                assert await one.run(NEXT, [list_], [40]) == 1

    asyncio.run(run())


def test_a_server_that_lost_nothing_stays_as_it_is(server: Server) -> None:
    async def run() -> None:
        async with pipes(server, 1) as (pipe,):
            for k in range(10):
                await pipe.run(NEXT, ["whole"], [k])
            await asyncio.to_thread(server.kill)
            server.start()
            assert await pipe.command("LRANGE", "whole", 0, -1) == [b"%d" % k for k in range(10)]

    asyncio.run(run())


def test_a_connection_that_was_only_cut_is_no_reason_to_write_again(server: Server) -> None:
    async def run() -> None:
        async with pipes(server, 1) as (pipe,), async_client(server.url) as client:
            await pipe.run(NEXT, ["cut"], [0])
            await client.delete("cut")
            assert await client.client_kill_filter(_type="normal", skipme=True) >= 1
            assert await pipe.command("EXISTS", "cut") == 0

    asyncio.run(run())


def test_what_is_only_remembered_is_written_when_it_is_needed(server: Server) -> None:
    async def run() -> None:
        async with pipes(server, 1) as (pipe,):
            await pipe.command("PING")
            pipe.remember(NEXT, ["remembered"], [0])
            assert await pipe.command("EXISTS", "remembered") == 0
            await asyncio.to_thread(server.kill)
            server.start()
            assert await pipe.command("LRANGE", "remembered", 0, -1) == [b"0"]

    asyncio.run(run())


def test_what_the_new_server_refuses_at_first_is_written_as_well(server: Server) -> None:
    """A replica that was just promoted has no replicas itself yet."""

    async def run() -> None:
        async with pipes(server, 1) as (pipe,), async_client(server.url) as client:
            before = server.written
            await pipe.run(NEXT, ["refused"], [0])
            await asyncio.to_thread(server.roll_back, before, "--min-replicas-to-write", "1")
            asked = pipe.send("LRANGE", "refused", 0, -1)
            await eventually(lambda: (pipe.trouble or "").startswith("NOREPLICAS"), "it refuses")
            assert not asked.done()
            await client.config_set("min-replicas-to-write", 0)
            assert await asked == [b"0"]

    asyncio.run(run())


def test_the_journal_is_bounded_in_time_and_bytes() -> None:
    journal = Journal()
    for k in range(100):
        journal.add(k / 10, NEXT, b"x")
    assert [call.at for call in journal] == [k / 10 for k in range(100) if k / 10 >= 9.9 - KEEP_S]
    journal.add(9.9, NEXT, b"x" * KEEP_BYTES)
    assert [len(call.words) for call in journal] == [KEEP_BYTES]
    journal.renew(20.0)
    journal.prune(20.0 + KEEP_S)
    assert len(journal) == 1
    journal.prune(20.1 + KEEP_S)
    assert not journal
