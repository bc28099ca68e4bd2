"""The worker process."""

from __future__ import annotations

import asyncio

import uvloop
from redis.exceptions import RedisError

from convoq.addresses import shown
from convoq.errors import Unavailable
from convoq.process import set_up
from convoq.redis import Pipe, async_client, sync_client
from convoq.settings import Settings
from convoq.worker.job import ChatJob
from convoq.worker.runtime import Runtime
from convoq.worker.worker import AsyncWorker


def work(settings: Settings) -> None:
    """Run until SIGTERM or SIGINT and everything is drained. Raises `Unavailable` where Redis does not answer."""
    set_up(settings)
    uvloop.run(_work(settings))


async def _work(settings: Settings) -> None:
    client = async_client(settings.redis_url)
    try:
        connection = sync_client(settings.redis_url)
        await asyncio.to_thread(connection.ping)
    except (RedisError, OSError) as error:
        raise Unavailable(f"Redis at {shown(settings.redis_url)} does not answer: {error} (CONVOQ_REDIS_URL)") from None
    async with Pipe(client, patience_s=settings.redis_patience_s) as pipe, Runtime(pipe, client, settings) as runtime:
        job = ChatJob(pipe, runtime.services, runtime.find_workflow)
        await AsyncWorker(settings, connection, job).serve(pipe)
    await client.aclose()
    connection.close()
