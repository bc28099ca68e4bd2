"""Sessions listed, paged, read and expired."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import cast

import pytest
from redis.asyncio import Redis

from convoq import keys
from convoq.contract.execution import ExecutionInfo
from convoq.contract.memory import Turn
from convoq.contract.services import Services
from convoq.delivery.admission import ChatQueue, Request, Terms
from convoq.delivery.stopping import Stopper
from convoq.delivery.takeover import Takeover
from convoq.errors import NotFound
from convoq.ids import new_execution_id
from convoq.memory.redis_list import RedisMemories
from convoq.memory.thread import THREAD_MAX, Exchange, RedisThreads
from convoq.redis import Pipe, async_client, sync_client
from convoq.settings import Settings
from convoq.store.sessions import SessionStore
from convoq.store.workflows import WorkflowStore
from tests.stack import Stack

SETTINGS = Settings(queue="nobody", memory_ttl_s=100, execution_ttl_s=300, failure_ttl_s=60, stream_ttl_s=60)


class Desk:
    """A sessions store and what fills it, without processes. `workflow` is one of this test's own."""

    def __init__(self, pipe: Pipe, client: Redis, url: str) -> None:
        self.pipe = pipe
        self.workflow = f"wf-{new_execution_id()}"
        self._connection = sync_client(url)
        self.queue = ChatQueue(pipe, self._connection, SETTINGS)
        takeover = Takeover(pipe, self._connection, SETTINGS)
        workflows = WorkflowStore(client)
        services = Services(SETTINGS, RedisMemories(pipe), http=lambda: pytest.fail("no model is called"))
        self.store = SessionStore(pipe, Stopper(pipe, takeover, SETTINGS), workflows, services)

    async def message(self, session: str, *, once: str | None = None) -> str:
        request = Request(self.workflow, "v", "Chat", session, {"chatInput": "hi", "sessionId": session}, False)
        admitted = await self.queue.admit(new_execution_id(), request, Terms("queue", once=once))
        return admitted.execution_id

    async def remember(self, execution_id: str, session: str, number: int, ttl_s: int = 100) -> None:
        await self.pipe.command("HSET", keys.execution(execution_id), "status", "running", "token", "t1")
        info = ExecutionInfo(execution_id, 1, self.workflow, "W", session, "production", 0.0, token="t1")
        memory = RedisMemories(self.pipe)(info, session, "Memory", window=5, ttl_s=ttl_s)
        await memory.append(Turn(f"{number}", "question", "answer"))

    async def age(self, session: str, seconds: float) -> None:
        """Let the session's last activity be that long ago."""
        await self.pipe.command("ZINCRBY", keys.sessions(self.workflow), -seconds, session)

    def close(self) -> None:
        self._connection.close()


@asynccontextmanager
async def a_desk(url: str) -> AsyncIterator[Desk]:
    async with async_client(url) as client, Pipe(client) as pipe:
        desk = Desk(pipe, client, url)
        yield desk
        desk.close()


def on_a_desk(url: str, test: Callable[[Desk], Awaitable[None]]) -> None:
    async def main() -> None:
        async with a_desk(url) as desk:
            await test(desk)

    asyncio.run(main())


def test_the_latest_activity_comes_first_and_pages_follow(redis_url: str) -> None:
    async def test(desk: Desk) -> None:
        for session in "abcde":
            await desk.message(session)
        await desk.message("b")
        whole, total = await desk.store.page(desk.workflow)
        assert ("".join(info.id for info in whole), total) == ("bedca", 5)
        assert [info.executions for info in whole] == [2, 1, 1, 1, 1]
        assert abs(whole[0].last_activity - time.time()) < 5
        page, total = await desk.store.page(desk.workflow, offset=1, limit=2)
        assert ("".join(info.id for info in page), total) == ("ed", 5)
        assert await desk.store.page("wf-no-such") == ([], 0)

    on_a_desk(redis_url, test)


def test_the_time_to_live_slides_with_each_turn_and_is_shown(redis_url: str) -> None:
    async def test(desk: Desk) -> None:
        execution = await desk.message("s")
        assert (await desk.store.info(desk.workflow, "s")).expires_in_s is None, "nothing is remembered yet"
        await desk.remember(execution, "s", 1)
        memory = keys.memory(desk.workflow, "s", "Memory")
        await desk.pipe.command("EXPIRE", memory, 7)
        assert (await desk.store.info(desk.workflow, "s")).expires_in_s in (6, 7)
        await desk.remember(execution, "s", 2)
        info = await desk.store.info(desk.workflow, "s")
        assert info.expires_in_s in (99, 100)
        assert info.bytes > 100

    on_a_desk(redis_url, test)


def test_a_session_is_listed_as_long_as_anything_of_it_is_kept(redis_url: str) -> None:
    async def test(desk: Desk) -> None:
        await desk.message("old")
        await desk.age("old", 299)
        await desk.message("new")
        assert [info.id for info in (await desk.store.page(desk.workflow))[0]] == ["new", "old"]
        await desk.age("old", 2)
        await desk.message("new")
        assert [info.id for info in (await desk.store.page(desk.workflow))[0]] == ["new"]
        with pytest.raises(NotFound, match="'old'"):
            await desk.store.export(desk.workflow, "old")

    on_a_desk(redis_url, test)


def test_every_key_of_a_session_has_a_time_to_live(redis_url: str) -> None:
    async def test(desk: Desk) -> None:
        execution = await desk.message("s", once="key")
        await desk.remember(execution, "s", 1)
        async with async_client(redis_url) as client:
            names = [key async for key in client.scan_iter(match="convoq:*", count=1000)]
        # RQ frees the place of a session when its last turn ends.
        ours = [key for key in names if not key.startswith(b"convoq:rq:")]
        mine = [key for key in ours if desk.workflow.encode() in key or execution.encode() in key]
        assert len(mine) >= 6, mine
        for key in mine:
            assert await desk.pipe.command("TTL", key) > 0, key

    on_a_desk(redis_url, test)


def test_what_expired_is_forgotten_by_the_index_too(redis_url: str) -> None:
    """A session that never rests does not pile up the keys of its submissions."""

    async def test(desk: Desk) -> None:
        await desk.message("s", once="first")
        index = keys.session_keys(desk.workflow, "s")
        await desk.pipe.command("ZINCRBY", index, -302, keys.submission(desk.workflow, "s", "first"))
        await desk.message("s", once="second")
        assert await desk.pipe.command("ZRANGE", index, 0, -1) == [
            keys.submission(desk.workflow, "s", "second").encode()
        ]

    on_a_desk(redis_url, test)


def test_the_end_of_an_execution_adds_to_the_thread(product: Stack) -> None:
    for text in ("my name is Ada", "What is 19 * 23?"):
        reply = product.say("ask", text, "thread")
        product.execution(reply.headers["x-execution-id"])
    found = product.get("/api/v1/workflows/wf-ask/sessions/thread").json
    assert [(one["user"], one["answer"]) for one in found["thread"]] == [
        ("my name is Ada", "Nice to meet you, Ada."),
        ("What is 19 * 23?", "Based on the tools: Calculator returned 437."),
    ]
    assert all(one["at"] <= one["answered"] for one in found["thread"])
    assert found["turns"] == 2 and 3590 <= found["expires_in_s"] <= 3600
    listed = product.get("/api/v1/workflows/wf-ask/sessions?limit=1000").json
    assert "thread" in [info["id"] for info in listed["data"]]
    download = product.get("/api/v1/workflows/wf-ask/sessions/thread?download")
    assert "attachment" in download.headers["content-disposition"]


@pytest.mark.parametrize("query", ["limit=0", "limit=1001", "offset=-1", "offset=x"])
def test_a_bad_page_is_refused(product: Stack, query: str) -> None:
    reply = product.get(f"/api/v1/workflows/wf-ask/sessions?{query}")
    assert (reply.status, reply.json["code"]) == (400, "bad_request")
    assert query.partition("=")[0] in reply.json["message"]


def test_a_thread_is_bounded(product: Stack) -> None:
    """The end of an execution takes the oldest exchange out; readers are told the newest."""
    key = keys.thread("wf-ask", "long")
    with product.redis() as client:
        client.rpush(key, *(Exchange(f"{n}", f"q{n}", "a").encoded() for n in range(THREAD_MAX)))
        product.execution(product.say("ask", "my name is Ada", "long").headers["x-execution-id"])
        assert client.llen(key) == THREAD_MAX
        assert 3590 <= client.ttl(key) <= 3600

    async def test(desk: Desk) -> None:
        found = await RedisThreads(desk.pipe)("wf-ask", "long", 2)
        assert [exchange.user for exchange in found] == ["q999", "my name is Ada"]
        assert (await RedisThreads(desk.pipe)("wf-ask", "long", THREAD_MAX))[0].user == "q1"

    on_a_desk(product.redis_url, test)


def test_a_thread_is_bounded_in_bytes(product: Stack) -> None:
    key = keys.thread("wf-ask", "wide")
    with product.redis() as client:
        client.rpush(key, *(Exchange(f"{n}", "q" * 100_000, "a" * 100_000).encoded() for n in range(60)))
        product.execution(product.say("ask", "my name is Ada", "wide").headers["x-execution-id"])
        kept = cast("list[bytes]", client.lrange(key, 0, -1))
        assert 35 <= len(kept) < 60 and sum(map(len, kept)) <= 8 << 20
        assert b"my name is Ada" in kept[-1]
