"""What accepting a message writes: an execution, an RQ job, a place in its session's order. On a real server."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator

import pytest
import redis
from rq import Queue
from rq.job import Job, JobStatus
from rq.rate_limit import RateLimitRegistry

from convoq import keys
from convoq.delivery.admission import ChatQueue, MsgpackSerializer, Request
from convoq.ids import new_execution_id
from convoq.redis import Pipe, async_client, sync_client
from convoq.settings import Settings

DB = 9


def request(session: str = "s", **item: object) -> Request:
    return Request("wf", "v1", "Chat", session, {"chatInput": "tell nobody", **item}, True)


@pytest.fixture
def client(redis_url: str) -> Iterator[redis.Redis]:
    client = sync_client(f"{redis_url}/{DB}")
    client.flushdb()
    yield client
    client.close()


Body = Callable[[ChatQueue, Pipe], Awaitable[None]]


def on_queue(redis_url: str, body: Body, **settings: object) -> None:
    async def run() -> None:
        url = f"{redis_url}/{DB}"
        chosen = Settings(redis_url=url, **settings)  # type: ignore[arg-type]
        sender, connection = async_client(url), sync_client(url)
        async with Pipe(sender) as pipe:
            await body(ChatQueue(pipe, connection, chosen), pipe)
        await sender.aclose()
        connection.close()

    asyncio.run(run())


def job_of(execution_id: str, client: redis.Redis) -> Job:
    return Job.fetch(execution_id, connection=client, serializer=MsgpackSerializer)


def queued(client: redis.Redis) -> list[str]:
    return Queue("chat", connection=client, serializer=MsgpackSerializer).get_job_ids()


def waiting(client: redis.Redis, session: str) -> list[str]:
    return RateLimitRegistry(keys.session("wf", session), client).get_rate_limited_job_ids()


def test_a_message_becomes_a_job_that_rq_knows(redis_url: str, client: redis.Redis) -> None:
    async def body(queue: ChatQueue, pipe: Pipe) -> None:
        execution_id = queue.new_id()
        admitted = await queue.admit(execution_id, request())
        assert (admitted.execution_id, admitted.position) == (execution_id, 0)
        assert len(admitted.token) >= 22
        job = job_of(execution_id, client)
        assert (job.origin, job.func_name, job.timeout) == ("chat", "convoq.worker.job.run", 77)
        assert job.get_status() is JobStatus.QUEUED
        assert (job.result_ttl, job.failure_ttl) == (900, 86_400)
        assert job.args[0] == execution_id
        assert Request(**job.args[1]) == request()
        assert queued(client) == [execution_id]
        assert Queue.all(connection=client, serializer=MsgpackSerializer)[0].name == "chat"

    on_queue(redis_url, body, job_timeout_s=77)


def test_nothing_outlives_its_time_and_no_words_of_the_user_lie_about(redis_url: str, client: redis.Redis) -> None:
    async def body(queue: ChatQueue, pipe: Pipe) -> None:
        execution_id = queue.new_id()
        await queue.admit(execution_id, request())
        job = job_of(execution_id, client)
        assert job.description == "chat wf"
        record = client.hgetall(keys.execution(execution_id))
        assert record[b"status"] == b"queued"
        assert not [value for value in record.values() if b"tell nobody" in value]
        for key in (keys.execution(execution_id), job.key):
            assert 0 < client.ttl(key) <= 86_400

    on_queue(redis_url, body)


def test_the_turns_of_a_session_wait_for_each_other_in_order(redis_url: str, client: redis.Redis) -> None:
    async def body(queue: ChatQueue, pipe: Pipe) -> None:
        ids = [queue.new_id() for _ in range(50)]
        admitted = await asyncio.gather(*(queue.admit(execution_id, request()) for execution_id in ids))
        assert [one.position for one in admitted] == list(range(50))
        assert queued(client) == ids[:1]
        assert waiting(client, "s") == ids[1:]
        assert job_of(ids[1], client).get_status() is JobStatus.RATE_LIMITED

    on_queue(redis_url, body)


def test_the_order_is_that_of_acceptance_whatever_the_ids(redis_url: str, client: redis.Redis) -> None:
    """Several API processes make ids; their clocks differ."""

    async def body(queue: ChatQueue, pipe: Pipe) -> None:
        ids = [queue.new_id() for _ in range(20)][::-1]
        for execution_id in ids:
            await queue.admit(execution_id, request())
        assert queued(client) + waiting(client, "s") == ids

    on_queue(redis_url, body)


def test_sessions_and_workflows_do_not_wait_for_each_other(redis_url: str, client: redis.Redis) -> None:
    async def body(queue: ChatQueue, pipe: Pipe) -> None:
        ids = []
        for workflow, session in (("wf", "a"), ("wf", "b"), ("wf:a", "b"), ("wf", "a:b"), ("wf%3Aa", "b")):
            ids.append(queue.new_id())
            admitted = await queue.admit(ids[-1], Request(workflow, "v", "Chat", session, {}, False))
            assert admitted.position == 0
        assert queued(client) == ids

    on_queue(redis_url, body)


def test_accepting_a_message_twice_changes_nothing(redis_url: str, client: redis.Redis) -> None:
    """As when the reply to the first call is lost and the pipe sends it again."""

    async def body(queue: ChatQueue, pipe: Pipe) -> None:
        ids = [queue.new_id(), queue.new_id()]
        for execution_id in ids:
            await queue.admit(execution_id, request())
        before = {key: client.dump(key) for key in client.scan_iter("*")}
        for position, execution_id in enumerate(ids):
            again = await queue.admit(execution_id, request())
            assert (again.execution_id, again.position) == (execution_id, position)
        assert {key: client.dump(key) for key in client.scan_iter("*")} == before
        assert queued(client) + waiting(client, "s") == ids

    on_queue(redis_url, body)


def test_ids_sort_by_their_time_and_never_repeat() -> None:
    ids = [new_execution_id() for _ in range(10_000)]
    assert ids == sorted(set(ids))


@pytest.mark.parametrize("value", [{"a": [1, 2.5, None, True, "ü", b"x"]}, [], "", 1 << 63, -(1 << 63)])
def test_the_serializer_carries_data(value: object) -> None:
    assert MsgpackSerializer.loads(MsgpackSerializer.dumps(value)) == value


def test_the_serializer_carries_nothing_else() -> None:
    with pytest.raises(TypeError):
        MsgpackSerializer.dumps(test_the_serializer_carries_nothing_else)


def test_session_keys_are_told_apart() -> None:
    """Session ids may hold anything, and so may workflow ids."""
    pairs = [("a", "b"), ("a:b", ""), ("", "a:b"), ("a%3Ab", ""), ("a", "b:"), ("a:", "b"), ("a", "ä"), ("a", "%C3%A4")]
    assert len({keys.session(workflow, session) for workflow, session in pairs}) == len(pairs)
    assert len({keys.memory(*pair, "Memory") for pair in pairs}) == len(pairs)
    assert keys.memory("a", "b", "c:d") != keys.memory("a", "b:c", "d")
