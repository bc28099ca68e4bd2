"""`convoq session …`."""

from __future__ import annotations

import asyncio
from typing import Annotated

import typer

from convoq.cli.connect import DEFAULT_DATA, Data
from convoq.settings import load_settings

WorkflowId = Annotated[str, typer.Argument(metavar="WORKFLOW", help="A workflow's id.", show_default=False)]
SessionId = Annotated[str, typer.Argument(metavar="SESSION", help="A session's id.", show_default=False)]

session = typer.Typer(help="Read, export or delete one session.", no_args_is_help=True)


@session.command("show")
def session_show(workflow_id: WorkflowId, session_id: SessionId, data: Data = DEFAULT_DATA) -> None:
    """Print what was said in a session."""
    from convoq.cli.sessions import show_session

    asyncio.run(show_session(load_settings(), data, workflow_id, session_id))


@session.command("export")
def session_export(
    workflow_id: WorkflowId,
    session_id: SessionId,
    output: Annotated[str, typer.Option(help="File, or - for stdout.")] = "-",
    data: Data = DEFAULT_DATA,
) -> None:
    """Write all that is kept of a session as JSON: thread, memories, records of executions."""
    from convoq.cli.sessions import export_session

    asyncio.run(export_session(load_settings(), data, workflow_id, session_id, output))


@session.command("delete")
def session_delete(
    workflow_id: WorkflowId,
    session_id: Annotated[str | None, typer.Argument(metavar="[SESSION]", show_default=False)] = None,
    prefix: Annotated[str | None, typer.Option(help="All sessions whose id begins so.", show_default=False)] = None,
    data: Data = DEFAULT_DATA,
) -> None:
    """Stop what runs of a session and delete all that is kept of it."""
    from convoq.cli.sessions import delete_sessions

    asyncio.run(delete_sessions(load_settings(), data, workflow_id, session_id, prefix))
