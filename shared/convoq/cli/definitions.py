"""Workflow files in and out of the store."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from importlib.resources import files
from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.progress import track
from rich.table import Table

from convoq.cli.checking import explained, files_in
from convoq.cli.connect import connected, url_of, with_encryption_key
from convoq.cli.terminal import printable
from convoq.credentials.lookup import CredentialLookup
from convoq.engine.exports import definitions_in
from convoq.engine.reading import decoded, parse_workflow, parse_workflow_text
from convoq.engine.report import Report, report_on
from convoq.engine.workflow import Workflow
from convoq.errors import ConfigError, ConvoqError, InvalidWorkflow
from convoq.nodes.registry import REGISTRY
from convoq.redis import Pipe
from convoq.settings import Settings
from convoq.store.workflows import WorkflowRecord, WorkflowStore

PROGRESS_FROM = 5
"""As many files as are worth a progress bar."""
DEMO = "demo workflow"


def demo_workflow() -> Workflow:
    """The one that needs no key."""
    return parse_workflow_text((files("convoq") / "cli" / "demo.json").read_bytes(), source=DEMO, registry=REGISTRY)


def read_workflows(file: Path, *, active: bool = True) -> list[Workflow]:
    """The workflows of a file, in whatever shape n8n's tools write them. `active` overrules the file's own flag.

    n8n's editor downloads workflows as inactive; who hands one to convoq means it to answer.
    Raises `ConfigError` where the file cannot be read, `InvalidWorkflow` where nothing can be made of it, `ConvoqError`
    where it holds no workflow.
    """
    try:
        text = file.read_bytes()
    except OSError as error:
        raise ConfigError(f"workflow file {str(file)!r} cannot be read: {error.strerror}") from None
    definitions = definitions_in(decoded(text, str(file)))
    if not definitions:
        raise ConvoqError(f"workflow file {str(file)!r} holds no workflow: no object with `nodes` is in it")
    workflows = [parse_workflow(definition, source=file.stem, registry=REGISTRY) for definition in definitions]
    return [dataclasses.replace(workflow, active=active) for workflow in workflows]


async def import_files(settings: Settings, data: Path, paths: Sequence[Path], *, demo: bool, active: bool) -> int:
    """Store the workflows of every file, tell of each what it is fit for; the number of files that were not stored."""
    failed = 0
    console = Console(stderr=True)
    files = files_in(paths)
    names: Iterable[Path | None] = [*([None] if demo else []), *files]
    if len(files) >= PROGRESS_FROM and console.is_terminal:
        names = track(names, "importing", total=len(files) + demo, console=console, transient=True)
    async with connected(url_of(settings, data)) as client, Pipe(client) as pipe:
        store = WorkflowStore(client)
        credential = CredentialLookup(with_encryption_key(settings, data), pipe)
        for path in names:
            try:
                for workflow in [demo_workflow()] if path is None else read_workflows(path, active=active):
                    record = await store.save(workflow)
                    _tell(record, await report_on(workflow, credential), str(path or DEMO))
            except InvalidWorkflow as error:
                failed += 1
                for fault in error.faults:
                    typer.echo(printable(f"{path or DEMO}: {fault}"), err=True)
            except ConvoqError as error:
                failed += 1
                typer.echo(printable(f"{path or DEMO}: {error.message}"), err=True)
    return failed


def _tell(record: WorkflowRecord, report: Report, source: str) -> None:
    where = ", ".join(f"/webhook/{path}" for path in record.paths) or "no chat trigger"
    state = "" if record.active else " (inactive)"
    typer.echo(printable(f"{record.id}  {record.name}  {where}{state}  {report.state}"))
    for line in explained(report):
        typer.echo(printable(f"{source}: {line}"), err=True)
    for warning in report.warnings:
        typer.echo(printable(f"{source}: warning: {warning}"), err=True)


async def export_files(settings: Settings, data: Path, workflow_id: str | None, output: str) -> None:
    """One JSON object for an id, a list for all; in a folder one file each. Raises `NotFound`."""
    async with connected(url_of(settings, data)) as client:
        store = WorkflowStore(client)
        ids = [workflow_id] if workflow_id is not None else sorted(record.id for record in await store.list())
        definitions = [await store.export(each) for each in ids]
    if output == "-":
        typer.echo(_json(definitions[0] if workflow_id is not None else definitions))
        return
    _write(Path(output), dict(zip(ids, definitions, strict=True)))


def _write(folder: Path, definitions: Mapping[str, Any]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, definition in definitions.items():
        file = folder / f"{re.sub(r'[^A-Za-z0-9_.~-]', '_', name).lstrip('.')}.json"
        file.write_text(_json(definition) + "\n", encoding="utf-8")
        typer.echo(str(file))


async def list_workflows(settings: Settings, data: Path, *, as_json: bool) -> None:
    async with connected(url_of(settings, data)) as client:
        records = await WorkflowStore(client).list()
    if as_json:
        typer.echo(_json([dataclasses.asdict(record) for record in records]))
        return
    table = Table("id", "name", "active", "chat path", "updated", box=None, header_style="bold")
    for record in records:
        updated = datetime.fromtimestamp(record.updated).isoformat(sep=" ", timespec="seconds")
        paths = "\n".join(f"/webhook/{path}" for path in record.paths)
        table.add_row(record.id, printable(record.name), "yes" if record.active else "no", paths, updated)
    console = Console()
    if not console.is_terminal:
        console.width = 1000  # for grep and its like: no line is wrapped or cut
    console.print(table, markup=False) if records else typer.echo("no workflows; see `convoq import`", err=True)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, indent=2)
