"""What the server refuses for now is sent again while the patience lasts; then its own words are the error."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from redis.exceptions import OutOfMemoryError, ReadOnlyError, ResponseError

from convoq.errors import Unavailable
from convoq.redis import Pipe, Script, async_client, refusal
from convoq.redis.refusals import PASSING
from tests.server import REFUSING, Server
from tests.stream.support import PATIENCE_S, eventually


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    server = Server.durable(tmp_path_factory.mktemp("refusing"))
    yield server
    server.kill()


@asynccontextmanager
async def pipe_to(server: Server, patience_s: float = 30.0) -> AsyncIterator[Pipe]:
    async with async_client(server.url) as client, Pipe(client, patience_s=patience_s) as pipe:
        yield pipe


def script(source: str) -> Script:
    return Script("test", source.encode(), hashlib.sha1(source.encode(), usedforsecurity=False).hexdigest())


@pytest.mark.parametrize("word", PASSING)
def test_each_refusal_passes_unnoticed(server: Server, word: str) -> None:
    """The words of a real server, from a script that gives in at the fourth time."""
    source = f"""
    if redis.call('INCR', KEYS[1]) < 4 then
        return redis.error_reply('{word} says the server.')
    end
    return 'well'
    """

    async def run() -> None:
        async with pipe_to(server) as pipe:
            asked = pipe.start(script(source), [f"asked:{word}"], [])
            await eventually(lambda: pipe.trouble == f"{word} says the server.", "its words are known")
            echoes = await asyncio.gather(*(pipe.command("ECHO", k) for k in range(10)))
            assert echoes == [b"%d" % k for k in range(10)]
            assert await asked == b"well"
            assert pipe.trouble is None

    asyncio.run(run())


@pytest.mark.parametrize("word", REFUSING)
def test_each_state_of_a_real_server_passes_and_nothing_is_written_twice(server: Server, word: str) -> None:
    async def run() -> None:
        async with pipe_to(server) as pipe:
            await pipe.command("DEL", "n")
            state = server.refusing(word)
            await asyncio.to_thread(state.__enter__)
            try:
                asked = [pipe.start(script("return redis.call('INCR', KEYS[1])"), ["n"], []) for _ in range(5)]
                await eventually(lambda: (pipe.trouble or "").startswith(("READONLY", word)), "its words are known")
                with pytest.raises(Unavailable, match=f"Redis refuses for now: (READONLY|{word})"):
                    await pipe.within(0.3, pipe.command("INCR", "other"))
                assert not any(one.done() for one in asked)
            finally:
                await asyncio.to_thread(state.__exit__, None, None, None)
            assert sorted(await asyncio.gather(*asked)) == [1, 2, 3, 4, 5]
            assert await pipe.command("EXISTS", "other") == 0  # who does not wait any more is not served either

    asyncio.run(run())


def test_a_server_that_loads_its_data_is_waited_for(folder: Path) -> None:
    server = Server.durable(folder)

    async def run() -> None:
        async with pipe_to(server) as pipe:
            await asyncio.gather(*(pipe.command("SET", f"k{k}", "v") for k in range(5000)))
            await asyncio.to_thread(server.kill)
            server.start("--key-load-delay", "400", wait=False)
            asked = pipe.send("GET", "k4999")
            await eventually(lambda: (pipe.trouble or "").startswith("LOADING"), "it loads")
            assert await asked == b"v"

    try:
        asyncio.run(run())
    finally:
        server.kill()


def test_a_patience_that_is_over_ends_in_the_servers_words(server: Server) -> None:
    async def run() -> None:
        async with pipe_to(server, patience_s=0.5) as pipe:
            with server.refusing("OOM"):
                async with asyncio.timeout(PATIENCE_S):
                    with pytest.raises(Unavailable, match="OOM command not allowed when used memory") as caught:
                        await pipe.command("SET", "k", "v")
                    assert caught.value.details == {"retry_after": 5}
                    assert await pipe.command("ECHO", "on") == b"on"
            assert await pipe.command("SET", "k", "v") == b"OK"

    asyncio.run(run())


def test_a_patience_is_over_at_a_server_that_lets_nobody_do_anything(server: Server) -> None:
    async def run() -> None:
        async with pipe_to(server, patience_s=0.5) as pipe:
            await pipe.command("PING")
            with server.refusing("MASTERDOWN"):
                async with asyncio.timeout(PATIENCE_S):
                    with pytest.raises(Unavailable, match="MASTERDOWN"):
                        await pipe.command("GET", "k")

    asyncio.run(run())


OLD = "Error running script (call to f_0d27): @user_script:1: @user_script: 1: -{}"
"""What Redis 6.2 makes of an error inside a script."""


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (ResponseError(OLD.format("READONLY You can't write."), status_code="ERR"), "READONLY You can't write."),
        (ResponseError(OLD.format("NOREPLICAS Not enough."), status_code="ERR"), "NOREPLICAS Not enough."),
        (OutOfMemoryError("too much. script: on @user_script:1.", status_code="OOM"), "OOM too much."),
        (ReadOnlyError("a replica"), "READONLY a replica"),
        (ResponseError("BUSY a script runs"), "BUSY a script runs"),
        (ResponseError("BUSYGROUP Consumer Group name already exists"), None),
        (ResponseError(OLD.format("WRONGTYPE Operation"), status_code="ERR"), None),
        (ResponseError("value is not an integer", status_code="ERR"), None),
        (OSError("connection refused"), None),
    ],
)
def test_what_counts_as_a_refusal_that_passes(error: Exception, said: str | None) -> None:
    assert refusal(error) == said
