"""`convoq credential add|list|remove`."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.table import Table

from convoq.cli.connect import connected, url_of, with_encryption_key
from convoq.cli.terminal import printable
from convoq.credentials.environment import VARIABLES
from convoq.credentials.vault import Vault
from convoq.errors import BadRequest
from convoq.redis import Pipe
from convoq.settings import Settings


@asynccontextmanager
async def _vault(settings: Settings, data: Path) -> AsyncIterator[Vault]:
    async with connected(url_of(settings, data)) as client, Pipe(client) as pipe:
        yield Vault(pipe, with_encryption_key(settings, data))


async def add_credential(
    settings: Settings, data: Path, kind: str, name: str, given: Sequence[str], *, from_json: bool
) -> None:
    """Raises `BadRequest` where nothing is given."""
    fields = _fields(kind, given, from_json=from_json)
    async with _vault(settings, data) as vault:
        record = await vault.add(name or kind, kind, fields)
    typer.echo(printable(f"{record.id}  {record.name}  {record.type}"))


async def list_credentials(settings: Settings, data: Path, *, as_json: bool) -> None:
    async with _vault(settings, data) as vault:
        records = await vault.list()
    if as_json:
        shown = [{"id": one.id, "name": one.name, "type": one.type, "created": one.created} for one in records]
        typer.echo(json.dumps(shown, indent=2))
        return
    table = Table("id", "name", "type", "added", box=None, header_style="bold")
    for one in records:
        added = datetime.fromtimestamp(one.created).isoformat(sep=" ", timespec="seconds")
        table.add_row(one.id, printable(one.name), printable(one.type), added)
    console = Console()
    if not console.is_terminal:
        console.width = 1000
    console.print(table, markup=False) if records else typer.echo(
        "no credentials; see `convoq credential add`", err=True
    )


async def remove_credential(settings: Settings, data: Path, id_or_name: str) -> None:
    async with _vault(settings, data) as vault:
        record = await vault.remove(id_or_name)
    typer.echo(printable(f"removed {record.name!r} of type {record.type}"))


def _fields(kind: str, given: Sequence[str], *, from_json: bool) -> Mapping[str, Any]:
    """`field=value` each, or JSON on stdin; a lone value is the type's key. Asked for where a person types: what stands
    on a command line is read by others."""
    if from_json:
        try:
            fields = json.load(sys.stdin)
        except ValueError as error:
            raise BadRequest(f"stdin is not JSON: {error}") from None
        if not isinstance(fields, dict):
            raise BadRequest('stdin should be a JSON object {"field": value}')
        return fields
    if given:
        pairs = [field.partition("=") for field in given]
        if bad := [name for name, equals, _ in pairs if not equals]:
            raise BadRequest(f"{len(bad)} of the fields are not FIELD=VALUE")
        return {name: value for name, _, value in pairs}
    field = next(iter(VARIABLES.get(kind, {"apiKey": ()})))
    if sys.stdin.isatty():
        return {field: typer.prompt(field, hide_input=True)}
    if value := sys.stdin.readline().strip():
        return {field: value}
    raise BadRequest(f"nothing was given: FIELD=VALUE, or {field} on stdin")
