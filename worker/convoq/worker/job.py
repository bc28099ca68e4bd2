"""The one job function: run a workflow for a chat message, stream its chunks, say what became of it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial

import structlog

from convoq import keys
from convoq.contract.connections import ConnectionType
from convoq.contract.execution import ExecutionInfo
from convoq.contract.items import Item
from convoq.contract.response import HttpResponse
from convoq.contract.run_data import NodeRun
from convoq.contract.services import Services
from convoq.delivery.admission import Request
from convoq.delivery.entries import Ended, Entry, number
from convoq.delivery.writer import Outbox, StreamWriter
from convoq.engine.answer import close_stream
from convoq.engine.hooks import Hooks
from convoq.engine.kept import keeps_run_data
from convoq.engine.outcome import Outcome
from convoq.engine.run import WorkflowRun
from convoq.engine.wait_here import wait_here
from convoq.engine.workflow import Workflow
from convoq.errors import ConvoqError, ExecutionFailed, Fenced, NodeFailed, Stopped, StreamTooLarge, TimedOut
from convoq.memory.thread import Exchange
from convoq.protocol import Chunk, Response
from convoq.redis import Argument, Pipe, load_script

log = structlog.get_logger()

FindWorkflow = Callable[[str, str], Awaitable[Workflow]]
"""(workflow id, version) -> the workflow."""


@dataclass(eq=False, slots=True)
class Claim:
    """One attempt at an execution, held by this worker. Whoever cancels it says why."""

    execution_id: str
    attempt: int
    token: str
    request: Request
    task: asyncio.Task[None]
    cancelled_by: ConvoqError | None = None
    on_cancel: Callable[[ConvoqError], None] | None = None

    def cancel(self, reason: ConvoqError) -> None:
        if self.cancelled_by is None:
            self.cancelled_by = reason
            if self.on_cancel is not None:
                self.on_cancel(reason)
            self.task.cancel()


@dataclass(frozen=True, slots=True)
class Result:
    """How an attempt ended: the stream's last entry, the run data (JSON, or empty), what a cut-off answer had said, and
    what the session's thread is to keep of a good one."""

    ended: Ended
    entry: Entry
    run_data: bytes
    partial: str = ""
    exchange: bytes = b""


RunJob = Callable[[Claim, float], Awaitable[Result]]


def run(execution_id: str, request: dict[str, object]) -> None:
    """What the RQ job names. Only convoq's own worker can run it: the stream and the lease are that worker's."""
    raise ExecutionFailed(f"execution {execution_id} needs a convoq worker: start one with `convoq worker`")


class ChatJob:
    """Runs claimed executions. One per worker process; `__call__` raises `Fenced` when the attempt was taken over."""

    def __init__(self, pipe: Pipe, services: Services, find_workflow: FindWorkflow) -> None:
        self._pipe = pipe
        self._outbox = Outbox(pipe, services.settings)
        self._services = services
        self._find_workflow = find_workflow

    async def __call__(self, claim: Claim, timeout_s: float) -> Result:
        writer = StreamWriter(self._outbox, claim.execution_id, claim.token)
        hooks = Hooks(
            send_chunk=writer.send if claim.request.stream else None,
            before_effect=partial(self._before_effect, claim),
            reasoning=claim.request.reasoning,
        )
        claim.on_cancel = partial(_cancelled, hooks)
        started = self._services.clock()
        outcome, run_data = await self._outcome(claim, hooks, writer, timeout_s)
        try:
            first, tail = await writer.close()
        except (StreamTooLarge, ExecutionFailed) as error:
            if isinstance(error, Fenced):
                raise
            outcome, first, tail = failed(error), writer.next, []
        outcome = self._told(claim, outcome)
        said = hooks.text if outcome.error else ""  # now: the last chunks close what is open
        last = await self._last_chunks(outcome, hooks, tail)
        ended = _ended(outcome, hooks)
        exchange = self._exchange(claim, outcome, started)
        return Result(ended, number(last, first, ended), run_data, said, exchange)

    async def _outcome(
        self, claim: Claim, hooks: Hooks, writer: StreamWriter, timeout_s: float
    ) -> tuple[Outcome, bytes]:
        run: WorkflowRun | None = None
        try:
            deadline = asyncio.get_running_loop().time() + timeout_s
            async with asyncio.timeout_at(deadline):
                workflow = await self._find_workflow(claim.request.workflow_id, claim.request.version)
                if not claim.request.stream and _answers_itself(workflow, claim.request.trigger):
                    hooks.respond = partial(_respond, writer)
                run = WorkflowRun(workflow, self._info(claim, workflow), self._services, hooks, deadline=deadline)
                hooks.node_finished = partial(self._checkpoint, claim, run)
                outcome = await wait_here(run, await run.start(claim.request.trigger, [Item(claim.request.item)]))
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
        return outcome, b"" if run is None else self._run_data(run, outcome)

    def _run_data(self, run: WorkflowRun, outcome: Outcome) -> bytes:
        workflow = run.state.workflow.settings
        kept = keeps_run_data(self._services.settings.run_data, workflow, failed=outcome.error is not None)
        return run.run_data_json() if kept else b""

    def _told(self, claim: Claim, outcome: Outcome) -> Outcome:
        """Failures go to the log in full. One that is the answer, as its node goes on after it, is for the client what
        the API makes of others."""
        error, where = outcome.error, {"execution": claim.execution_id, "workflow": claim.request.workflow_id}
        if error is not None and error.public is not None:
            log.warning("execution failed", **where, node=outcome.last_node, code=error.code, message=error.message)
        if outcome.passed_over:
            log.warning("an error is the answer", **where, node=outcome.last_node, message=outcome.passed_over)
            if not self._services.settings.error_details:
                return outcome.with_error(f"{NodeFailed.public} (execution {claim.execution_id})")
        return outcome

    async def _before_effect(self, claim: Claim) -> None:
        """From here on this execution is not run again. Raises `Fenced` when it is run elsewhere already."""
        script, key = load_script("mark"), keys.execution(claim.execution_id)
        if not await self._pipe.run(script, [key], [claim.token, "effects", 1]):
            raise Fenced("another attempt has taken this execution over")

    def _checkpoint(self, claim: Claim, run: WorkflowRun, record: NodeRun) -> None:
        """Keep what a tool has answered, should this worker be lost before the end."""
        settings = self._services.settings
        if record.connection == ConnectionType.TOOL and settings.run_data != "none":
            names = [keys.execution(claim.execution_id), keys.run_data(claim.execution_id)]
            arguments: list[Argument] = [claim.token, run.run_data_json(), settings.run_data_ttl_s]
            self._pipe.start(load_script("checkpoint"), names, arguments)

    def _exchange(self, claim: Claim, outcome: Outcome, started: float) -> bytes:
        if outcome.error is not None or not (said := claim.request.item.get("chatInput")):
            return b""
        return Exchange(claim.execution_id, str(said), outcome.reply_text(), started, self._services.clock()).encoded()

    def _info(self, claim: Claim, workflow: Workflow) -> ExecutionInfo:
        return ExecutionInfo(
            id=claim.execution_id,
            attempt=claim.attempt,
            workflow_id=claim.request.workflow_id,
            workflow_name=workflow.name,
            session_id=claim.request.session_id,
            mode="production",
            started=self._services.clock(),
            token=claim.token,
        )

    async def _last_chunks(self, outcome: Outcome, hooks: Hooks, tail: list[Chunk]) -> list[Chunk]:
        async def keep(chunk: Chunk) -> None:
            tail.append(chunk)

        hooks.send_chunk = keep
        await close_stream(outcome, hooks)
        return tail


def _answers_itself(workflow: Workflow, trigger: str) -> bool:
    """Whether the chat's client is to have the answer that a node of the workflow makes."""
    return any(
        chat.node.name == trigger and chat.parameters.response_mode == "responseNode"
        for chat in workflow.chat_triggers()
    )


async def _respond(writer: StreamWriter, response: HttpResponse) -> None:
    file = "" if response.file is None else response.file.id
    await writer.send(Response(response.status, dict(response.headers), response.body, file))


def _cancelled(hooks: Hooks, reason: ConvoqError) -> None:
    hooks.cancellation.request(by_person=isinstance(reason, Stopped))


def failed(error: ConvoqError) -> Outcome:
    return Outcome("error", error)


def _ended(outcome: Outcome, hooks: Hooks) -> Ended:
    if outcome.error is not None:
        return Ended.by(outcome.error)
    thoughts = {"reasoning": "".join(hooks.thoughts)} if hooks.thoughts else {}
    return Ended("success", {**outcome.reply, **thoughts})
