"""`convoq run`: one message through a workflow, in this process."""

from __future__ import annotations

import time
from pathlib import Path

import aiohttp
import typer

from convoq.cli.definitions import read_workflows
from convoq.cli.terminal import cut_off, printable
from convoq.contract.execution import ExecutionInfo
from convoq.contract.items import Item
from convoq.contract.services import Services
from convoq.credentials.lookup import CredentialLookup
from convoq.egress.session import Egress
from convoq.engine.answer import close_stream
from convoq.engine.hooks import Hooks, StreamChunk
from convoq.engine.run import WorkflowRun
from convoq.errors import ConvoqError
from convoq.expressions.sandbox import Sandbox
from convoq.ids import new_execution_id
from convoq.memory.local import LocalMemories
from convoq.memory.parts import MemoryParts
from convoq.memory.summary import LocalFolds
from convoq.protocol import End, Error, encode_line
from convoq.protocol import Item as ItemChunk
from convoq.settings import Settings


async def run_file(settings: Settings, file: Path, message: str, session: str, *, as_json: bool) -> bool:
    """Whether the workflow ended well. Raises `ConvoqError` where the file has no chat trigger."""
    workflow = next(iter(read_workflows(file)), None)
    triggers = workflow.chat_triggers() if workflow is not None else []
    if workflow is None or not triggers:
        raise ConvoqError(f"workflow file {str(file)!r} has no enabled Chat Trigger to send a message to")
    http: list[aiohttp.ClientSession] = []

    def session_of_process() -> aiohttp.ClientSession:
        if not http:
            http.append(aiohttp.ClientSession())
        return http[0]

    memories = LocalMemories()
    services = Services(
        settings=settings,
        open_memory=memories,
        http=session_of_process,
        credential=CredentialLookup(settings),
        parts=[MemoryParts(folds=LocalFolds(memories)), Sandbox.of(settings), Egress.of(settings)],
    )
    hooks = Hooks(send_chunk=_Lines() if as_json else _show)
    info = ExecutionInfo(
        id=new_execution_id(),
        attempt=1,
        workflow_id=workflow.id,
        workflow_name=workflow.name,
        session_id=session,
        mode="manual",
        started=time.time(),
    )
    item = Item({"sessionId": session, "action": "sendMessage", "chatInput": message})
    try:
        outcome = await WorkflowRun(workflow, info, services, hooks).start(triggers[0].node.name, [item])
        await close_stream(outcome, hooks)
    finally:
        for client in http:
            await client.close()
        await services.close()
    return outcome.error is None


class _Lines:
    """The stream as a client of the API gets it."""

    def __init__(self) -> None:
        self._next = 0

    async def __call__(self, chunk: StreamChunk) -> None:
        chunk.seq = self._next
        self._next += 1
        typer.echo(encode_line(chunk))


async def _show(chunk: StreamChunk) -> None:
    match chunk:
        case ItemChunk():
            typer.echo(printable(chunk.content), nl=False)
        case Error():
            typer.echo(f"\nerror: {printable(chunk.content)}", err=True)
        case End():
            typer.echo("")
            if note := cut_off(chunk):
                typer.echo(f"({note})", err=True)
        case _:
            pass
