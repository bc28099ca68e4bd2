"""`convoq failed` and `convoq retry`: what could not be answered, and another try of it."""

from __future__ import annotations

import json
import zlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import cast

import msgspec
import typer
from redis.asyncio import Redis
from rich.console import Console
from rich.table import Table

from convoq import keys
from convoq.cli.connect import connected, url_of
from convoq.cli.terminal import printable
from convoq.delivery.admission import ChatQueue, MsgpackSerializer, Request, Terms, join
from convoq.errors import Conflict, Displaced, Gone, Stopped, UnknownExecution
from convoq.redis import Pipe, sync_client
from convoq.rq import FailedJobRegistry, Job
from convoq.settings import Settings

ON_PURPOSE = (Stopped.code, Displaced.code)
"""Ends that somebody asked for: not listed."""


@dataclass(frozen=True, slots=True)
class Failed:
    """`ended` is in seconds since 1970, `code` that of `convoq.errors`."""

    id: str
    workflow: str
    session: str
    attempts: int
    ended: float
    code: str
    reason: str


async def list_failed(settings: Settings, data: Path, *, as_json: bool) -> None:
    """The failed executions whose jobs RQ still keeps, oldest first."""
    async with connected(url_of(settings, data)) as client:
        ids = cast("Sequence[bytes]", await client.zrange(_registry(settings), 0, -1))
        found = [await _failed(client, execution_id.decode()) for execution_id in ids]
    rows = sorted((one for one in found if one is not None and one.code not in ON_PURPOSE), key=lambda one: one.ended)
    if as_json:
        typer.echo(json.dumps([asdict(row) for row in rows], ensure_ascii=False, indent=2))
        return
    table = Table("id", "workflow", "session", "attempts", "ended", "reason", box=None, header_style="bold")
    for row in rows:
        ended = datetime.fromtimestamp(row.ended).isoformat(sep=" ", timespec="seconds")
        shown = (row.workflow, row.session, str(row.attempts), ended, f"{row.code}: {row.reason}")
        table.add_row(row.id, *map(printable, shown))
    console = Console()
    if not console.is_terminal:
        console.width = 1000  # for grep and its like: no line is wrapped or cut
    console.print(table, markup=False) if rows else typer.echo("no failed executions", err=True)


async def retry(settings: Settings, data: Path, execution_id: str) -> str:
    """Queue the message of a failed execution once more; the new execution's id, the same one when repeated.

    Raises `UnknownExecution`, `Conflict` (it has not failed), `Gone` (its message is not kept any more), `Overloaded`.
    """
    url = url_of(settings, data)
    async with connected(url) as client, Pipe(client) as pipe:
        failed = await _failed(client, execution_id)
        if failed is None:
            raise await _not_failed(client, execution_id)
        connection = sync_client(url)
        queue = ChatQueue(pipe, connection, settings)
        job = Job(execution_id, connection=connection, serializer=MsgpackSerializer)
        fields = await client.hgetall(job.key)
        if b"data" not in fields:
            raise Gone(f"the message of execution {execution_id} is not kept any more (CONVOQ_FAILURE_TTL_S)")
        job.restore({b"data": zlib.compress(b""), **fields})
        request = msgspec.convert(job.args[1], Request)
        joined = await client.lrange(keys.joined(execution_id), 0, -1)
        request = join(request, [json.loads(item) for item in joined])
        admitted = await queue.admit(queue.new_id(), request, Terms("queue", once=f"retry of {execution_id}"))
        await client.zrem(_registry(settings), execution_id)
        connection.close()
    return admitted.execution_id


def _registry(settings: Settings) -> str:
    return FailedJobRegistry.key_template.format(settings.queue)


async def _failed(client: Redis, execution_id: str) -> Failed | None:
    names = ("status", "workflow", "session", "attempt", "ended", "error")
    values = cast("Sequence[bytes | None]", await client.hmget(keys.execution(execution_id), names))
    status, workflow, session, attempt, ended, error = ("" if value is None else value.decode() for value in values)
    if status != "error":
        return None
    reason = json.loads(error)
    return Failed(
        execution_id, workflow, session, int(attempt), int(ended) / 1000, str(reason["code"]), str(reason["message"])
    )


async def _not_failed(client: Redis, execution_id: str) -> Exception:
    status = await client.hget(keys.execution(execution_id), "status")
    if status is None:
        return UnknownExecution(f"no execution {execution_id!r}: it never was, or its record has expired")
    return Conflict(f"execution {execution_id} has not failed: its status is {cast(bytes, status).decode()!r}")
