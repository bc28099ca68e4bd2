"""`convoq credential …`."""

from __future__ import annotations

import asyncio
from typing import Annotated

import typer

from convoq.cli.connect import DEFAULT_DATA, Data
from convoq.settings import load_settings

credential = typer.Typer(help="Store the credentials that nodes use, encrypted.", no_args_is_help=True)


@credential.command("add")
def credential_add(
    kind: Annotated[str, typer.Argument(metavar="TYPE", help="n8n's type, as openAiApi.", show_default=False)],
    fields: Annotated[
        list[str] | None, typer.Argument(metavar="[FIELD=VALUE…]", help="Default: asked for.", show_default=False)
    ] = None,
    name: Annotated[str, typer.Option(help="What nodes call it (default: the type).", show_default=False)] = "",
    from_json: Annotated[bool, typer.Option("--json", help="Read {field: value} from stdin.")] = False,
    data: Data = DEFAULT_DATA,
) -> None:
    """Store a credential, or replace the one of the same name and type. Nodes find it by its id, name or type."""
    from convoq.cli.credentials import add_credential

    asyncio.run(add_credential(load_settings(), data, kind, name, fields or [], from_json=from_json))


@credential.command("list")
def credential_list(
    as_json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False, data: Data = DEFAULT_DATA
) -> None:
    """List the stored credentials: never what is in them."""
    from convoq.cli.credentials import list_credentials

    asyncio.run(list_credentials(load_settings(), data, as_json=as_json))


@credential.command("remove")
def credential_remove(
    id_or_name: Annotated[str, typer.Argument(metavar="ID|NAME", show_default=False)], data: Data = DEFAULT_DATA
) -> None:
    """Delete a stored credential."""
    from convoq.cli.credentials import remove_credential

    asyncio.run(remove_credential(load_settings(), data, id_or_name))
