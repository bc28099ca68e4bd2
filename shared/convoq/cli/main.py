"""The `convoq` command."""

from __future__ import annotations

import asyncio
import sys
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Annotated

import typer
from redis.exceptions import RedisError

from convoq.addresses import scrub
from convoq.cli import settings_table
from convoq.cli.connect import DEFAULT_DATA, Data
from convoq.cli.credential_commands import credential
from convoq.cli.parent import end_with_parent
from convoq.cli.session_commands import session
from convoq.cli.terminal import printable
from convoq.errors import ConfigError, ConvoqError
from convoq.settings import load_settings

app = typer.Typer(
    help="AI chat workflows on a queue. All settings are environment variables: see `convoq settings`.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
)

Port = Annotated[int | None, typer.Option(help="Port of the API (default 8080)")]
Host = Annotated[str | None, typer.Option(help="Address of the API (default 127.0.0.1)")]

app.add_typer(session, name="session")
app.add_typer(credential, name="credential")


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"convoq {version('convoq')}")
        raise typer.Exit


@app.callback()
def root(
    asked: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    pass


@app.command()
def up(
    port: Port = None,
    host: Host = None,
    data: Data = DEFAULT_DATA,
    workers: Annotated[int, typer.Option(min=1, max=64, help="Worker processes.")] = 2,
    workflow: Annotated[
        list[Path] | None, typer.Option(help="Workflow file to import and serve; may be repeated.")
    ] = None,
) -> None:
    """Start everything on this machine: Valkey, API, workers, and a demo workflow that needs no key.

    The embedded Valkey keeps its data in the data folder; with CONVOQ_REDIS_URL set, that server is used instead.
    The log level is `warning` here and clients read errors in full, unless CONVOQ_LOG_LEVEL and CONVOQ_ERROR_DETAILS
    say otherwise. Ctrl-C stops everything.
    """
    from convoq.cli.up import Up, claim_port

    asyncio.run(Up(claim_port(load_settings(host=host, port=port)), data, workers, workflow or []).run())


@app.command()
def api(port: Port = None, host: Host = None) -> None:
    """Run one API process: takes chat messages, queues them, streams the answers."""
    settings = load_settings(host=host, port=port)
    end_with_parent()
    import_module("convoq.api.main").serve(settings)


@app.command()
def worker(
    concurrency: Annotated[int | None, typer.Option(help="Executions at once, at most (default 1000)")] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Start none; see that a worker of this host takes messages (exit code 0).")
    ] = False,
) -> None:
    """Run one worker process: takes messages from the queue and runs their workflows."""
    settings = load_settings(concurrency=concurrency)
    if check:
        from convoq.cli.connect import check_worker

        asyncio.run(check_worker(settings))
        return
    end_with_parent()
    import_module("convoq.worker.main").work(settings)


@app.command("import")
def import_(
    files: Annotated[
        list[Path] | None,
        typer.Argument(metavar="FILE…", help="n8n workflow files (JSON), or folders.", show_default=False),
    ] = None,
    demo: Annotated[bool, typer.Option("--demo", help="The demo workflow, too.")] = False,
    inactive: Annotated[bool, typer.Option("--inactive", help="Store without serving (default: serve).")] = False,
    data: Data = DEFAULT_DATA,
) -> None:
    """Store workflows and serve their chat paths. Replaces a workflow of the same id.

    Every file is looked at, and all faults of each are listed; exit code 1 if any was not stored.
    Works on CONVOQ_REDIS_URL, or else on the `convoq up` that runs on the data folder.
    """
    from convoq.cli.definitions import import_files

    if not files and not demo:
        raise typer.BadParameter("name at least one file, or --demo")
    if failed := asyncio.run(import_files(load_settings(), data, files or [], demo=demo, active=not inactive)):
        raise ConvoqError(f"{failed} of {len(files or []) + demo} could not be imported")


@app.command()
def check(
    files: Annotated[
        list[Path], typer.Argument(metavar="FILE|DIR…", help="Workflow files, or folders of them.", show_default=False)
    ],
    run: Annotated[
        bool, typer.Option("--run", help="Also send each chat a message, its models replaced by mocks.")
    ] = False,
    message: Annotated[str, typer.Option("--message", "-m", help="That message.")] = "Hello, what can you do?",
    as_json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
) -> None:
    """Tell what convoq makes of workflow files: ready, without which tools, what stands in the way, what is needed.

    Stores nothing. Exit code 1 where a workflow cannot be run, or, with --run, failed.
    """
    from convoq.cli.checking import check_files

    if not asyncio.run(check_files(load_settings(), files, run=run, message=message, as_json=as_json)):
        raise typer.Exit(1)


@app.command()
def export(
    workflow_id: Annotated[str | None, typer.Argument(metavar="[ID]", help="Default: all.", show_default=False)] = None,
    output: Annotated[str, typer.Option(help="Folder for one ID.json each, or - for stdout.")] = "-",
    data: Data = DEFAULT_DATA,
) -> None:
    """Write stored workflows as n8n JSON."""
    from convoq.cli.definitions import export_files

    asyncio.run(export_files(load_settings(), data, workflow_id, output))


@app.command("list")
def list_(
    as_json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
    data: Data = DEFAULT_DATA,
) -> None:
    """List the stored workflows and their chat paths."""
    from convoq.cli.definitions import list_workflows

    asyncio.run(list_workflows(load_settings(), data, as_json=as_json))


@app.command()
def sessions(
    workflow_id: Annotated[
        str | None, typer.Argument(metavar="[WORKFLOW]", help="Default: all.", show_default=False)
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
    data: Data = DEFAULT_DATA,
) -> None:
    """List the sessions: last activity, turns, size, and when they expire if nothing more is said."""
    from convoq.cli.sessions import list_sessions

    asyncio.run(list_sessions(load_settings(), data, workflow_id, as_json=as_json))


@app.command("redis")
def redis_(
    as_json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
    data: Data = DEFAULT_DATA,
) -> None:
    """List what convoq holds in Redis by kind: keys, bytes, and what never expires."""
    from convoq.cli.inventory import list_keys

    asyncio.run(list_keys(load_settings(), data, as_json=as_json))


@app.command()
def failed(
    as_json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
    data: Data = DEFAULT_DATA,
) -> None:
    """List the messages that could not be answered, each with its reason."""
    from convoq.cli.failed import list_failed

    asyncio.run(list_failed(load_settings(), data, as_json=as_json))


@app.command()
def retry(
    execution_id: Annotated[str, typer.Argument(metavar="ID", help="As `convoq failed` lists it.", show_default=False)],
    data: Data = DEFAULT_DATA,
) -> None:
    """Run a failed message again, as the newest of its session. Prints the new execution's id."""
    from convoq.cli.failed import retry as run_again

    typer.echo(asyncio.run(run_again(load_settings(), data, execution_id)))


@app.command()
def run(
    file: Annotated[Path, typer.Argument(help="n8n workflow file (JSON).", show_default=False)],
    message: Annotated[str, typer.Option("--message", "-m", help="The chat message.", show_default=False)],
    session: Annotated[str, typer.Option(help="Session id.")] = "default",
    as_json: Annotated[bool, typer.Option("--json", help="Print the stream's NDJSON lines.")] = False,
) -> None:
    """Run a workflow on one message in this process, without Redis, and print the answer as it comes."""
    from convoq.cli.local import run_file
    from convoq.logs import configure_logs

    settings = load_settings()
    configure_logs(settings)  # to stderr: what is on stdout may be read by a program
    if not asyncio.run(run_file(settings, file, message, session, as_json=as_json)):
        raise typer.Exit(1)


@app.command()
def chat(
    url: Annotated[str, typer.Argument(help="A chat page's URL.", show_default=False)],
    session: Annotated[str | None, typer.Option(help="Session id (default: a new one).", show_default=False)] = None,
    header: Annotated[list[str] | None, typer.Option("--header", "-H", help="'Name: value'; may be repeated.")] = None,
) -> None:
    """Chat in the terminal; answers are streamed. Ctrl-D or Ctrl-C ends."""
    from convoq.cli.chat import chat as converse

    headers = {}
    for line in header or []:
        name, colon, value = line.partition(":")
        if not colon:
            raise typer.BadParameter(f"{line!r} is not 'Name: value'")
        headers[name.strip()] = value.strip()
    raise typer.Exit(converse(url, session, headers))


@app.command()
def settings(
    env: Annotated[bool, typer.Option("--env", help="As an environment file.")] = False,
) -> None:
    """Print every setting, its default and what it does."""
    typer.echo(settings_table.env_example() if env else settings_table.markdown(), nl=False)


def main() -> None:
    """Failures that convoq can name become one line on stderr: exit code 2 for a wrong setting, else 1."""
    try:
        app()
    except ConvoqError as error:
        _fail(error.message, 2 if isinstance(error, ConfigError) else 1)
    except RedisError as error:
        _fail(f"Redis: {error}", 1)
    except OSError as error:
        _fail(f"{error.filename}: {error.strerror}" if error.filename else str(error), 1)
    except KeyboardInterrupt:
        sys.exit(130)


def _fail(message: str, code: int) -> None:
    typer.echo(f"error: {printable(scrub(message))}", err=True)
    sys.exit(code)
