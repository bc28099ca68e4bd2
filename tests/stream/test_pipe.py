"""The two connections to Redis: replies in order, nothing lost or done twice when a connection breaks."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from redis.exceptions import ResponseError

from convoq.errors import Unavailable
from convoq.redis import Pipe, Script, Subscriber, async_client, load_script
from tests.stack import free_port
from tests.stream.support import PATIENCE_S, eventually

SOURCE = b"""
if redis.call('EXISTS', KEYS[1]) == 0 then
    redis.call('RPUSH', KEYS[2], ARGV[1])
    redis.call('SET', KEYS[1], 1)
end
return ARGV[1]
"""
ONCE = Script("once", SOURCE, hashlib.sha1(SOURCE, usedforsecurity=False).hexdigest())
"""As convoq's own scripts are: doing it again changes nothing."""


@asynccontextmanager
async def pipe_to(url: str) -> AsyncIterator[Pipe]:
    client = async_client(url)
    async with Pipe(client) as pipe:
        yield pipe
    await client.aclose()


@asynccontextmanager
async def server(url: str) -> AsyncIterator[Any]:
    """Another client, to disturb with."""
    client = async_client(url)
    await client.flushdb()
    yield client
    await client.aclose()


def run_once(pipe: Pipe, k: int) -> asyncio.Future[Any]:
    return pipe.start(ONCE, [f"done:{k}", "order"], [k])


def test_replies_belong_to_their_commands(redis_url: str) -> None:
    async def run() -> None:
        async with server(redis_url) as client, pipe_to(redis_url) as pipe:
            assert await asyncio.gather(*(pipe.command("INCR", "n") for _ in range(1000))) == list(range(1, 1001))
            await client.set("text", "x")
            mixed = await asyncio.gather(
                *(pipe.command("INCR", "n" if k % 2 else "text") for k in range(20)), return_exceptions=True
            )
            assert [isinstance(reply, ResponseError) for reply in mixed] == [not k % 2 for k in range(20)]
            assert mixed[1::2] == list(range(1001, 1011))

    asyncio.run(run())


def test_who_does_not_wait_any_more_disturbs_nobody(redis_url: str) -> None:
    async def run() -> None:
        async with server(redis_url), pipe_to(redis_url) as pipe:
            calls = [asyncio.create_task(pipe.command("ECHO", k)) for k in range(100)]
            await asyncio.sleep(0)
            for call in calls[::3]:
                call.cancel()
            replies = await asyncio.gather(*calls, return_exceptions=True)
            assert [r for k, r in enumerate(replies) if k % 3] == [b"%d" % k for k in range(100) if k % 3]
            assert all(isinstance(reply, asyncio.CancelledError) for reply in replies[::3])

    asyncio.run(run())


def test_commands_outlive_a_broken_connection_once_and_in_order(redis_url: str) -> None:
    async def run() -> None:
        async with server(redis_url) as client, pipe_to(redis_url) as pipe:
            replies = []
            for k in range(400):
                replies.append(run_once(pipe, k))
                if k % 100 == 50:
                    await client.client_kill_filter(_type="normal", skipme=True)
                elif k % 10 == 0:
                    await asyncio.sleep(0)
            assert await asyncio.gather(*replies) == [b"%d" % k for k in range(400)]
            assert await client.lrange("order", 0, -1) == [b"%d" % k for k in range(400)]

    asyncio.run(run())


def test_a_script_that_the_server_forgot_is_sent_again(redis_url: str) -> None:
    async def run() -> None:
        async with server(redis_url) as client, pipe_to(redis_url) as pipe:
            for k in range(3):
                await client.script_flush()
                replies = [run_once(pipe, 10 * k + j) for j in range(10)]
                echoes = [pipe.command("ECHO", j) for j in range(10)]
                assert await asyncio.gather(*replies) == [b"%d" % (10 * k + j) for j in range(10)]
                assert await asyncio.gather(*echoes) == [b"%d" % j for j in range(10)]
            assert await client.lrange("order", 0, -1) == [b"%d" % k for k in range(30)]

    asyncio.run(run())


def test_a_script_that_fails_says_so_to_its_caller(redis_url: str) -> None:
    async def run() -> None:
        async with server(redis_url) as client, pipe_to(redis_url) as pipe:
            await client.set("order", "not a list")
            with pytest.raises(ResponseError, match="WRONGTYPE"):
                await run_once(pipe, 1)
            assert await pipe.command("ECHO", "on") == b"on"

    asyncio.run(run())


def test_a_closed_pipe_takes_no_commands(redis_url: str) -> None:
    async def run() -> None:
        async with pipe_to(redis_url) as pipe:
            last = pipe.send("ECHO", "last words")
        assert await last == b"last words"
        with pytest.raises(Unavailable):
            await pipe.command("PING")

    asyncio.run(run())


def test_a_refused_password_is_no_reason_to_wait(redis_url: str) -> None:
    async def run() -> None:
        async with server(redis_url) as client:
            await client.acl_setuser("locked", enabled=True, passwords=["+right"], commands=["+@all"], keys=["*"])
            try:
                async with asyncio.timeout(PATIENCE_S):
                    async with pipe_to(redis_url.replace("//", "//locked:wrong@")) as pipe:
                        with pytest.raises(Unavailable, match="password"):
                            await pipe.command("PING")
            finally:
                await client.acl_deluser("locked")

    asyncio.run(run())


def test_a_pipe_without_a_server_can_be_closed() -> None:
    async def run() -> None:
        async with asyncio.timeout(PATIENCE_S):
            async with pipe_to(f"redis://127.0.0.1:{free_port()}") as pipe:
                waiting = pipe.send("PING")
                await asyncio.sleep(0)
        assert not waiting.done() or waiting.cancelled() or waiting.exception()

    asyncio.run(run())


def test_every_script_is_loadable() -> None:
    for name in ("admit", "claim", "publish", "finish", "renew", "append_turn"):
        script = load_script(name)
        assert b"--!include" not in script.source
        assert load_script(name) is script


@asynccontextmanager
async def subscriber_to(url: str) -> AsyncIterator[tuple[Subscriber, list[bytes], list[int]]]:
    heard: list[bytes] = []
    reconnects: list[int] = []
    client = async_client(url)
    subscriber = Subscriber(client, lambda _, data: heard.append(data), lambda: reconnects.append(1))
    async with subscriber:
        yield subscriber, heard, reconnects
    await client.aclose()


def test_a_confirmed_subscription_hears_all(redis_url: str) -> None:
    async def run() -> None:
        async with server(redis_url) as client, subscriber_to(redis_url) as (subscriber, heard, reconnects):
            await asyncio.gather(*(subscriber.subscribe(b"c%d" % k) for k in range(100)))
            for k in range(100):
                await client.publish(f"c{k}", k)
            await eventually(lambda: len(heard) == 100, "100 messages")
            assert heard == [b"%d" % k for k in range(100)]
            assert not reconnects

    asyncio.run(run())


def test_an_ended_subscription_hears_nothing_and_can_begin_again(redis_url: str) -> None:
    async def run() -> None:
        async with server(redis_url) as client, subscriber_to(redis_url) as (subscriber, heard, _):
            for _round in range(3):
                await subscriber.subscribe(b"c")
                subscriber.unsubscribe(b"c")
            await subscriber.subscribe(b"other")
            assert await client.pubsub_numsub("c") == [(b"c", 0)]
            await subscriber.subscribe(b"c")
            await client.publish("c", "again")
            await eventually(lambda: heard == [b"again"], "a message of the renewed subscription")

    asyncio.run(run())


def test_a_subscriber_comes_back_and_says_so(redis_url: str) -> None:
    async def run() -> None:
        async with server(redis_url) as client, subscriber_to(redis_url) as (subscriber, heard, reconnects):
            await subscriber.subscribe(b"c")
            for round_ in range(1, 4):
                assert await client.client_kill_filter(_type="pubsub") == 1
                await eventually(lambda expected=round_: len(reconnects) == expected, "the reconnect")  # type: ignore[misc]
                await subscriber.subscribe(b"new %d" % round_)
                await client.publish("c", round_)
                await eventually(lambda expected=round_: len(heard) == expected, "a message after it")  # type: ignore[misc]
            assert heard == [b"1", b"2", b"3"]

    asyncio.run(run())


def test_a_subscriber_without_a_server_can_be_closed() -> None:
    async def run() -> None:
        async with asyncio.timeout(PATIENCE_S):
            async with subscriber_to(f"redis://127.0.0.1:{free_port()}") as (subscriber, _, _):
                waiting = asyncio.ensure_future(subscriber.subscribe(b"c"))
                await asyncio.sleep(0)
                waiting.cancel()

    asyncio.run(run())


@pytest.mark.parametrize("turns", range(6))
def test_leaving_at_any_moment_ends_the_connections_too(redis_url: str, turns: int) -> None:
    """A write under way must not swallow the cancellation: a process that stops would wait for ever."""

    async def run() -> None:
        async with asyncio.timeout(PATIENCE_S):
            for _ in range(20):
                async with pipe_to(redis_url) as pipe, subscriber_to(redis_url) as (subscriber, _, _):
                    await subscriber.subscribe(b"c")
                    subscriber.unsubscribe(b"c")
                    last = pipe.send("PING")
                    for _ in range(turns):
                        await asyncio.sleep(0)
                assert await last == b"PONG"

    asyncio.run(run())
