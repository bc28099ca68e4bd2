"""`convoq chat URL`: a conversation in the terminal, streamed."""

from __future__ import annotations

import asyncio
import json
import sys
from http import HTTPStatus

import aiohttp
import msgspec
import typer
from uuid_utils import uuid4

from convoq.addresses import scrub, shown
from convoq.cli.terminal import cut_off, printable
from convoq.errors import ConvoqError
from convoq.protocol import End, Error, Item, Queued, decode_line

CONNECT_S = 10.0
SILENCE_S = 60.0
"""A stream has a keepalive line every few seconds: one that is silent for this long is dead."""


def chat(url: str, session_id: str | None, headers: dict[str, str]) -> int:
    """Until end of input or Ctrl-C. The exit code: 1 where the last message got no good answer."""
    session_id = session_id or str(uuid4())
    interactive = sys.stdin.isatty()
    if interactive:
        typer.echo(f"session {session_id}; Ctrl-D ends", err=True)
    failed = False
    with asyncio.Runner() as runner:
        try:
            while True:
                text = input("you> " if interactive else "").strip()
                if text:
                    failed = not runner.run(_send(url, session_id, text, headers))
        except (EOFError, KeyboardInterrupt):
            if interactive:
                typer.echo("", err=True)
    return int(failed)


async def _send(url: str, session_id: str, text: str, headers: dict[str, str]) -> bool:
    """Print the answer as it comes; whether it was a good one. What went wrong is told on stderr."""
    body = {"action": "sendMessage", "sessionId": session_id, "chatInput": text}
    timeout = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_S, sock_read=SILENCE_S)
    try:
        async with (
            aiohttp.ClientSession(timeout=timeout) as http,
            http.post(url, json=body, headers={"Accept": "application/x-ndjson", **headers}) as answer,
        ):
            if answer.status != HTTPStatus.OK:
                raise ConvoqError(f"{answer.status} {_reason(await answer.text())}")
            if answer.content_type != "application/x-ndjson":
                raise ConvoqError(f"{shown(url)} answers {answer.content_type}, not a chat stream; is it a chat's URL?")
            return await _show(answer.content)
    except TimeoutError:
        typer.echo(f"error: no word from {shown(url)} for {SILENCE_S:g} s", err=True)
    except (aiohttp.ClientError, ConvoqError, ValueError) as error:
        typer.echo(f"error: {printable(scrub(str(error)))}", err=True)
    return False


async def _show(lines: aiohttp.StreamReader) -> bool:
    good = True
    async for line in lines:
        try:
            chunk = decode_line(line)
        except msgspec.ValidationError:
            continue  # a type that this client does not know
        match chunk:
            case Item():
                typer.echo(printable(chunk.content), nl=False)
            case Error():
                good = False
                typer.echo(f"\nerror: {printable(chunk.content)}", err=True)
            case End():
                if note := cut_off(chunk):
                    typer.echo(f"\n({note})", err=True)
            case Queued():
                typer.echo(f"({chunk.position} before this one)", err=True)
            case _:
                pass
    typer.echo("")
    return good


def _reason(body: str) -> str:
    try:
        return str(json.loads(body)["message"])
    except (ValueError, KeyError, TypeError):
        return body[:200]
