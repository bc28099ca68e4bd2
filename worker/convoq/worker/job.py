"""The one job function: run a workflow for a chat message, stream its chunks, say what became of it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import structlog

from convoq.engine.answer import close_stream
from convoq.engine.hooks import Hooks
from convoq.engine.outcome import Outcome
from convoq.engine.run import WorkflowRun
from convoq.engine.services import Services
from convoq.engine.workflow import Workflow
from convoq.errors import ConvoqError, ExecutionFailed, Fenced, StreamTooLarge, TimedOut
from convoq.nodes.base import ExecutionInfo, Item
from convoq.protocol import Chunk
from convoq.queue import Request
from convoq.redis import Pipe
from convoq.stream import Ended, Entry, StreamWriter, number

log = structlog.get_logger()

FindWorkflow = Callable[[str, str], Awaitable[Workflow]]
"""(workflow id, version) -> the workflow."""


@dataclass(eq=False, slots=True)
class Claim:
    """One attempt at an execution, held by this worker. Whoever cancels it says why."""

    execution_id: str
    attempt: int
    request: Request
    task: asyncio.Task[None]
    cancelled_by: ConvoqError | None = None

    def cancel(self, reason: ConvoqError) -> None:
        if self.cancelled_by is None:
            self.cancelled_by = reason
            self.task.cancel()


@dataclass(frozen=True, slots=True)
class Result:
    """How an attempt ended: the stream's last entry and the run data (JSON, or empty)."""

    ended: Ended
    entry: Entry
    run_data: bytes


RunJob = Callable[[Claim, float], Awaitable[Result]]


def run(execution_id: str, request: dict[str, object]) -> None:
    """What the RQ job names. Only convoq's own worker can run it: the stream and the lease are that worker's."""
    raise ExecutionFailed(f"execution {execution_id} needs a convoq worker: start one with `convoq worker`")


class ChatJob:
    """Runs claimed executions. One per worker process; `__call__` raises `Fenced` when the attempt was taken over."""

    def __init__(self, pipe: Pipe, services: Services, find_workflow: FindWorkflow) -> None:
        self._pipe = pipe
        self._services = services
        self._find_workflow = find_workflow

    async def __call__(self, claim: Claim, timeout_s: float) -> Result:
        writer = StreamWriter(self._pipe, claim.execution_id, claim.attempt, self._services.settings)
        hooks = Hooks(send_chunk=writer.send if claim.request.stream else None)
        outcome, run_data = await self._outcome(claim, hooks, timeout_s)
        try:
            first, tail = await writer.close()
        except StreamTooLarge as error:
            outcome, first, tail = failed(error), writer.next, []
        last = await self._last_chunks(outcome, hooks, tail)
        ended = _ended(outcome)
        return Result(ended, number(last, first, ended), run_data)

    async def _outcome(self, claim: Claim, hooks: Hooks, timeout_s: float) -> tuple[Outcome, bytes]:
        run: WorkflowRun | None = None
        try:
            async with asyncio.timeout(timeout_s):
                workflow = await self._find_workflow(claim.request.workflow_id, claim.request.version)
                run = WorkflowRun(workflow, self._info(claim, workflow), self._services, hooks)
                outcome = await run.start(claim.request.trigger, [Item(claim.request.item)])
        except TimeoutError:
            outcome = failed(TimedOut(f"the execution took longer than {timeout_s:g} s"))
        except asyncio.CancelledError:
            if claim.cancelled_by is None:
                raise
            claim.task.uncancel()
            if isinstance(claim.cancelled_by, Fenced):
                raise claim.cancelled_by from None
            outcome = failed(claim.cancelled_by)
        except Fenced:
            raise
        except ConvoqError as error:
            outcome = failed(error)
        except Exception as error:
            log.exception("execution failed inside convoq", execution=claim.execution_id)
            outcome = failed(ExecutionFailed(f"internal error: {type(error).__name__}"))
        return outcome, b"" if run is None else run.run_data_json()

    def _info(self, claim: Claim, workflow: Workflow) -> ExecutionInfo:
        return ExecutionInfo(
            id=claim.execution_id,
            attempt=claim.attempt,
            workflow_id=claim.request.workflow_id,
            workflow_name=workflow.name,
            session_id=claim.request.session_id,
            mode="production",
            started=self._services.clock(),
        )

    async def _last_chunks(self, outcome: Outcome, hooks: Hooks, tail: list[Chunk]) -> list[Chunk]:
        async def keep(chunk: Chunk) -> None:
            tail.append(chunk)

        hooks.send_chunk = keep
        await close_stream(outcome, hooks)
        return tail


def failed(error: ConvoqError) -> Outcome:
    return Outcome("error", error)


def _ended(outcome: Outcome) -> Ended:
    error = outcome.error
    if error is None:
        return Ended("success", outcome.reply)
    return Ended("stopped" if error.code == "stopped" else "error", {}, error.as_dict(), error.status)
