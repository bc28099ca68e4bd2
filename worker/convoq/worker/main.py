"""The worker process."""

from __future__ import annotations

import structlog
import uvloop

from convoq.process import Stop, StopAsked, set_up
from convoq.redis import Arrival, Pipe, async_client, sync_client
from convoq.settings import Settings
from convoq.worker.job import ChatJob
from convoq.worker.runtime import Runtime
from convoq.worker.worker import AsyncWorker

log = structlog.get_logger()


def work(settings: Settings) -> None:
    """Run until SIGTERM or SIGINT and everything is drained.

    Raises `Unavailable` where Redis is not there within `redis_wait_s`, or refuses.
    """
    set_up(settings)
    uvloop.run(_work(settings))


async def _work(settings: Settings) -> None:
    stop = Stop()
    try:
        await stop.or_result(Arrival(settings.redis_url, patience_s=settings.redis_wait_s).wait())
    except StopAsked:
        log.info("worker stopped before redis was there")
        return
    client, connection = async_client(settings.redis_url), sync_client(settings.redis_url)
    async with Pipe(client, patience_s=settings.redis_patience_s) as pipe, Runtime(pipe, client, settings) as runtime:
        job = ChatJob(pipe, runtime.services, runtime.find_workflow)
        await AsyncWorker(settings, connection, job).serve(pipe, stop)
    await client.aclose()
    connection.close()
