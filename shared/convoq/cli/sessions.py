"""`convoq sessions` and `convoq session …`: what is remembered of whom, and how it is forgotten."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, NoReturn

import typer
from rich.console import Console
from rich.table import Table

from convoq.cli.connect import connected, url_of
from convoq.cli.terminal import printable
from convoq.contract.services import Services
from convoq.credentials.lookup import CredentialLookup
from convoq.delivery.stopping import Stopper
from convoq.delivery.takeover import Takeover
from convoq.errors import ConfigError, ExecutionFailed
from convoq.memory.parts import MemoryParts
from convoq.memory.pools import Pools
from convoq.memory.redis_list import RedisMemories
from convoq.redis import Pipe, sync_client
from convoq.settings import Settings
from convoq.store.sessions import SessionInfo, SessionStore
from convoq.store.workflows import WorkflowStore

PAGE = 500


@asynccontextmanager
async def _store(settings: Settings, data: Path) -> AsyncIterator[tuple[SessionStore, WorkflowStore]]:
    url = url_of(settings, data)
    async with connected(url) as client, Pipe(client) as pipe:
        connection = sync_client(url)
        stopper = Stopper(pipe, Takeover(pipe, connection, settings), settings)
        workflows, pools = WorkflowStore(client), Pools(pipe, url)
        services = Services(
            settings,
            RedisMemories(pipe),
            http=_no_http,
            credential=CredentialLookup(settings, pipe),
            parts=[MemoryParts(pools=pools)],
        )
        yield SessionStore(pipe, stopper, workflows, services), workflows
        await services.close()
        connection.close()


def _no_http() -> NoReturn:
    raise ExecutionFailed("no models are called here")


async def list_sessions(settings: Settings, data: Path, workflow_id: str | None, *, as_json: bool) -> None:
    """The latest activity of each workflow first."""
    rows: list[tuple[str, SessionInfo]] = []
    async with _store(settings, data) as (sessions, workflows):
        ids = [workflow_id] if workflow_id is not None else [record.id for record in await workflows.list()]
        for each in ids:
            total = 1
            found: list[SessionInfo] = []
            while len(found) < total:
                page, total = await sessions.page(each, offset=len(found), limit=PAGE)
                found += page
                if not page:
                    break
            rows += ((each, info) for info in found)
    if as_json:
        typer.echo(_json([{"workflow": each, **info.as_dict()} for each, info in rows]))
        return
    table = Table("workflow", "session", "last activity", "turns", "bytes", "expires in", box=None, header_style="bold")
    for each, info in rows:
        shown = (each, info.id, _time(info.last_activity), str(info.turns), str(info.bytes), _left(info.expires_in_s))
        table.add_row(*map(printable, shown))
    console = Console()
    if not console.is_terminal:
        console.width = 1000  # for grep and its like: no line is wrapped or cut
    console.print(table, markup=False) if rows else typer.echo("no sessions", err=True)


async def show_session(settings: Settings, data: Path, workflow_id: str, session_id: str) -> None:
    """What was said, and what the workflow's memories hold. Raises `NotFound`."""
    async with _store(settings, data) as (sessions, _):
        exported = await sessions.export(workflow_id, session_id)
    left = _left(exported["expires_in_s"])
    typer.echo(printable(f"{session_id}: {exported['turns']} turns, {exported['bytes']} bytes, expires in {left}"))
    for exchange in exported["thread"]:
        typer.echo(printable(f"\n[{_time(exchange['at'])}] user: {exchange['user']}"))
        typer.echo(printable(f"[{_time(exchange['answered'])}] assistant: {exchange['answer']}"))
    for memory in exported["memories"]:
        typer.echo(printable(f"\nmemory {memory['key']}: {len(memory['elements'])} elements"))


async def export_session(settings: Settings, data: Path, workflow_id: str, session_id: str, output: str) -> None:
    """All that is kept of it, as JSON. Raises `NotFound`."""
    async with _store(settings, data) as (sessions, _):
        exported = await sessions.export(workflow_id, session_id)
    if output == "-":
        typer.echo(_json(exported))
    else:
        _write(Path(output), exported)


async def delete_sessions(
    settings: Settings, data: Path, workflow_id: str, session_id: str | None, prefix: str | None
) -> None:
    """One, or all whose id begins with `prefix`. Raises `NotFound`, `ConfigError` where neither or both are named."""
    if bool(session_id) == bool(prefix):
        raise ConfigError("name a session, or --prefix for all whose id begins so")
    failed = False
    async with _store(settings, data) as (sessions, _):
        for name in [session_id] if session_id else await sessions.matching(workflow_id, prefix or ""):
            deleted = await sessions.delete(workflow_id, name)
            typer.echo(printable(f"deleted {name}: {deleted.keys} keys"))
            for line in deleted.not_cleared:
                typer.echo(printable(f"not cleared: {line}"), err=True)
                failed = True
    if failed:
        raise typer.Exit(1)


def _write(file: Path, value: Any) -> None:
    file.write_text(_json(value) + "\n", encoding="utf-8")
    typer.echo(str(file))


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds).isoformat(sep=" ", timespec="seconds")


def _left(seconds: int | None) -> str:
    return "–" if seconds is None else f"{seconds // 60} min" if seconds >= 120 else f"{seconds} s"


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, indent=2)
