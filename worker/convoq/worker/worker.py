"""RQ's worker with one event loop: many executions at once, RQ's registries, results, commands and `rq info` intact."""

from __future__ import annotations

import asyncio
import os
import secrets
import signal
import socket
import threading
import time
from dataclasses import dataclass
from typing import Any, cast

import msgspec
import redis
import structlog
from redis.asyncio import Redis as AsyncRedis
from redis.exceptions import RedisError

from convoq import keys
from convoq.delivery import ledger
from convoq.delivery.admission import MsgpackSerializer, Request, join
from convoq.delivery.finish import Finisher
from convoq.delivery.takeover import Takeover
from convoq.errors import Fenced, Stopped, WorkerLost
from convoq.presence import Process, say_present
from convoq.process import Stop
from convoq.redis import CONNECT_ERRORS, REPLY_TIMEOUT_S, Argument, Pipe, Subscriber, async_client, load_script
from convoq.rq import WORKERS_SUSPENDED, BaseWorker, Execution, Job, WorkerStatus, parse_payload
from convoq.settings import Settings
from convoq.worker.job import Claim, Result, RunJob
from convoq.worker.pace import until_free

log = structlog.get_logger()

DEQUEUE_S = 0.3
"""How long one BLMOVE blocks: also the longest that an idle worker takes to notice a stop."""
LET_GO_S = 0.2
"""What a stopping worker waits for a server that is silent. Jobs it may have sent are found by others (strays)."""
TAKES_JOBS_S = 5.0
"""A worker whose last look at the queue is older than this does not count as one that takes jobs."""
STOPPED = "stopped on request"
WORKER_TTL_S = 30
"""RQ forgets a worker that was killed 60 s after this."""
HEARTBEAT_S = 10.0
"""RQ's own interval is 30 s with a lease of 90 s; a crash should show in `rq info` sooner."""


@dataclass(eq=False, slots=True)
class Running:
    """An execution under way, and RQ's names for it."""

    claim: Claim
    job: Job
    execution: Execution


class AsyncWorker(BaseWorker):
    """`serve()` runs until SIGTERM or SIGINT; then it takes nothing more, lets what runs finish within `drain_s`, and
    hands back what had not started and what had said nothing yet."""

    def __init__(self, settings: Settings, connection: redis.Redis, run: RunJob) -> None:
        name = f"{socket.gethostname()}.{os.getpid()}.{secrets.token_hex(3)}"
        super().__init__(
            [settings.queue],
            name=name,
            connection=connection,
            serializer=MsgpackSerializer,
            worker_ttl=WORKER_TTL_S,
            prepare_for_work=False,  # it would ask the server, and wait for it
        )
        self.hostname, self.pid = socket.gethostname(), os.getpid()
        self.settings = settings
        self._run_job = run
        self._running: dict[str, Running] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._free = asyncio.Semaphore(settings.concurrency)
        self._resumed = asyncio.Event()
        self._strays: dict[bytes, float] = {}
        self._claim_script, self._record = load_script("claim"), load_script("record")
        self._renew = load_script("renew")
        self._hand_back_script, self._beat = load_script("hand_back"), load_script("beat")
        self._last_took = 0.0
        self._maintenance: threading.Thread | None = None

    # --- the story -----------------------------------------------------------------------------------------------

    def work(self, *args: Any, **kwargs: Any) -> bool:
        raise NotImplementedError("AsyncWorker runs in an event loop: await serve()")

    async def serve(self, pipe: Pipe, stop: Stop) -> None:
        """Start, take jobs until told to stop, drain, stop."""
        self._pipe, self._stop = pipe, stop
        self._finisher = Finisher(pipe, self.connection, self.settings)
        self._takeover = Takeover(pipe, self.connection, self.settings)
        self._note(ledger.born(self))
        self._resumed.set()
        present = say_present(pipe, Process.this("worker"))
        chores = [asyncio.create_task(chore) for chore in (self._upkeep(), self._takeover.watch(), present)]
        commands = Subscriber(async_client(self.settings.redis_url), self._on_command, lambda: None)
        async with commands:
            commands.subscribe(self.pubsub_channel_name.encode())
            log.info("worker started", name=self.name, queue=self.settings.queue, concurrency=self.settings.concurrency)
            try:
                await self._take_jobs_until_asked()
                await self._drain()
            finally:
                for task in (*chores, *self._tasks):
                    task.cancel()
                await asyncio.wait({*chores, *self._tasks}, timeout=LET_GO_S)
                self._note(ledger.died(self))
                log.info("worker stopped", name=self.name)

    def _note(self, words: list[Argument]) -> None:
        """Apply RQ's commands about the worker itself, without waiting for it."""

        def noted(reply: asyncio.Future[Any]) -> None:
            if not reply.cancelled() and (error := reply.exception()) is not None:
                log.warning("rq was not told of this worker", error=repr(error))

        self._pipe.start(self._beat, [], [len(words), *words]).add_done_callback(noted)

    # --- taking jobs ---------------------------------------------------------------------------------------------

    async def _take_jobs_until_asked(self) -> None:
        taking, asked = asyncio.create_task(self._take_jobs()), asyncio.create_task(self._stop.asked.wait())
        await asyncio.wait({taking, asked}, return_when=asyncio.FIRST_COMPLETED)
        self._resumed.set()
        self._free.release()  # where all places are taken, nobody may wait for one before the grace time begins
        await asyncio.wait({taking}, timeout=DEQUEUE_S + LET_GO_S)
        asked.cancel()
        if taking.done():
            taking.result()
        taking.cancel()

    async def _take_jobs(self) -> None:
        client = async_client(self.settings.redis_url, socket_timeout=DEQUEUE_S + 4)
        try:
            while not self._stop.asked.is_set():
                await self._resumed.wait()
                await self._free.acquire()
                await until_free()
                job_id = None if self._stop.asked.is_set() else await self._dequeue(client)
                if job_id is None:
                    self._free.release()
                elif self._stop.asked.is_set():
                    await self._hand_back(job_id)
                else:
                    task = asyncio.create_task(self._execute(job_id), name=f"execution {job_id}")
                    self._tasks.add(task)
                    task.add_done_callback(self._executed)
        finally:
            await client.aclose()

    async def _dequeue(self, client: AsyncRedis) -> str | None:
        queue = self.queues[0]
        try:
            found = await client.blmove(queue.key, queue.intermediate_queue_key, cast(int, DEQUEUE_S), "LEFT", "RIGHT")
        except (RedisError, RuntimeError, *CONNECT_ERRORS) as error:
            # Also UNBLOCKED, from a master that became a replica, and uvloop's RuntimeError for a closed connection.
            log.warning("cannot take jobs", error=repr(error))
            await asyncio.sleep(0.5)
            return None
        self._last_took = asyncio.get_running_loop().time()
        return cast(bytes, found).decode() if found else None

    async def _hand_back(self, job_id: str) -> None:
        queue = self.queues[0]
        await self._pipe.run(
            self._hand_back_script, [queue.intermediate_queue_key, queue.key, keys.execution(job_id)], [job_id]
        )

    def _executed(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._free.release()
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("execution left unfinished", task=task.get_name(), error=repr(error), exc_info=error)

    # --- one execution -------------------------------------------------------------------------------------------

    async def _execute(self, job_id: str) -> None:
        claimed = await self._claim(job_id)
        if claimed is None:
            return
        claim, job = claimed
        execution, words = ledger.started(self, job)
        recorded = self._pipe.start(self._record, [keys.execution(job_id)], [claim.token, execution.id, *words])
        running = self._running[job_id] = Running(claim, job, execution)
        try:
            result = await self._run_job(claim, job.timeout or self.settings.job_timeout_s)
            await recorded
            if isinstance(claim.cancelled_by, WorkerLost) and not result.entry.first:
                await self._give_up(claim)
            elif not await self._finish(running, result):
                log.warning("execution was taken over", execution=job_id, attempt=claim.attempt)
        except Fenced:
            log.warning("execution was taken over", execution=job_id, attempt=claim.attempt)
        finally:
            del self._running[job_id]
            self.executions.pop(execution.id, None)

    async def _give_up(self, claim: Claim) -> None:
        """Nothing of it was seen yet and this worker has no more time: another one may run it."""
        names = [keys.execution(claim.execution_id), keys.LEASES]
        await self._pipe.run(load_script("give_up"), names, [claim.token, claim.execution_id])
        await self._takeover.settle(claim.execution_id)

    async def _claim(self, job_id: str) -> tuple[Claim, Job] | None:
        queue = self.queues[0]
        job = Job(job_id, connection=self.connection, serializer=self.serializer)
        token = secrets.token_hex(8)
        answer = await self._pipe.run(
            self._claim_script,
            [
                *(keys.execution(job_id), job.key, queue.intermediate_queue_key),
                *(keys.LEASES, keys.WAITING, keys.joined(job_id)),
            ],
            [job_id, token, self.name, self.settings.lease_s, int(time.time() * 1000)],
        )
        if not isinstance(answer, list):
            log.info("job is not to be run", job=job_id, status=answer.decode())
            return None
        attempt, fields, joined = answer
        job.restore(dict(zip(fields[::2], fields[1::2], strict=True)))
        task = asyncio.current_task()
        assert task is not None
        request = Request(**job.args[1])
        if joined:
            request = join(request, [msgspec.json.decode(item) for item in joined])
        return Claim(job_id, attempt, token, request, task), job

    async def _finish(self, running: Running, result: Result) -> bool:
        claim, job, ended = running.claim, running.job, result.ended
        message = "" if ended.error is None else str(ended.error["message"])
        commands = ledger.ended(self, job, running.execution, ended.status, message)
        done = await self._finisher.finish(
            claim.execution_id,
            claim.token,
            "running",
            job.rate_limit_key or "",
            ended,
            result.entry,
            commands,
            run_data=result.run_data,
            partial=result.partial,
            exchange=result.exchange,
        )
        return done == 1

    # --- chores --------------------------------------------------------------------------------------------------

    async def _upkeep(self) -> None:
        """All timed chores: leases, jobs lost between queue and worker, suspension, heartbeat, RQ's maintenance."""
        loop = asyncio.get_running_loop()
        beat_at = 0.0
        while True:
            try:
                async with asyncio.timeout(self.settings.lease_s):
                    await self._renew_leases()
                    await self._return_strays()
                    await self._follow_suspension()
                    if loop.time() >= beat_at:
                        beat_at = loop.time() + HEARTBEAT_S
                        await self._heartbeat()
                if self.should_run_maintenance_tasks:
                    self._maintain()
            except (TimeoutError, *CONNECT_ERRORS) as error:
                log.warning("upkeep is late", error=repr(error))
            except Exception:  # a worker that renews no leases any more must not go on taking jobs
                log.exception("upkeep failed")
            await asyncio.sleep(self.settings.lease_s / 3)

    def _maintain(self) -> None:
        """RQ's maintenance, which waits for the server in its own way. No end of this process waits for it."""
        if self._maintenance is None or not self._maintenance.is_alive():
            self._maintenance = threading.Thread(target=self.run_maintenance_tasks, name="rq-maintenance", daemon=True)
            self._maintenance.start()

    async def _renew_leases(self) -> None:
        """Say that this worker takes jobs (if it does), and renew what it runs."""
        looked = asyncio.get_running_loop().time() - self._last_took < TAKES_JOBS_S
        takes_jobs = (looked or self._free.locked()) and not self._stop.asked.is_set()
        words: list[Argument] = []
        for job_id, running in self._running.items():
            words += (job_id, running.claim.token)
        answer = await self._pipe.run(
            self._renew,
            [keys.LEASES, keys.WORKERS],
            [self.settings.lease_s, keys.execution(""), self.name if takes_jobs else "", *words],
        )
        for job_id, reason in zip(answer[::2], answer[1::2], strict=True):
            if holder := self._running.get(job_id.decode()):
                taken = Fenced("another attempt has taken this execution over")
                holder.claim.cancel(Stopped(reason.decode()) if reason else taken)

    async def _return_strays(self) -> None:
        """Put back what some worker took off the queue but never claimed: it died, or its reply was lost."""
        queue, loop = self.queues[0], asyncio.get_running_loop()
        between = await self._pipe.command("LRANGE", queue.intermediate_queue_key, 0, -1)
        now = loop.time()
        self._strays = {job_id: self._strays.get(job_id, now) for job_id in between}
        for job_id, seen in self._strays.items():
            if now - seen >= self.settings.lease_s:
                log.warning("job was taken but not started: back to the queue", job=job_id.decode())
                await self._hand_back(job_id.decode())

    async def _follow_suspension(self) -> None:
        """`rq suspend` and `rq resume`."""
        suspended = bool(await self._pipe.command("EXISTS", WORKERS_SUSPENDED)) and not self._stop.asked.is_set()
        if suspended and self._resumed.is_set():
            log.info("worker suspended, run `rq resume` to resume")
            self._resumed.clear()
        elif not suspended and not self._resumed.is_set():
            self._resumed.set()
        await self._show_state()

    async def _show_state(self) -> None:
        state = WorkerStatus.BUSY if self._running else WorkerStatus.IDLE
        if not self._resumed.is_set():
            state = WorkerStatus.SUSPENDED
        if state != self.get_state():
            self._state = state
            await self._pipe.command("HSET", self.key, "state", state.value)

    async def _heartbeat(self) -> None:
        words = ledger.beat(self)
        arguments: list[Argument] = [len(words), *words]
        for running in self._running.values():
            words = ledger.still_runs(self, running.job, running.execution)
            arguments += [running.claim.token, len(words), *words]
        await self._pipe.run(self._beat, [keys.execution(job_id) for job_id in self._running], arguments)

    def run_maintenance_tasks(self) -> None:
        try:
            super().run_maintenance_tasks()  # type: ignore[no-untyped-call]
        except Exception as error:
            log.warning("rq's maintenance failed", error=repr(error))

    # --- stopping ------------------------------------------------------------------------------------------------

    async def _drain(self) -> None:
        """Let what runs finish within the grace time; end what does not."""
        deadline = asyncio.get_running_loop().time() + self.settings.drain_s
        hurried = asyncio.create_task(self._stop.hurried.wait())
        while self._tasks and not hurried.done():
            left = deadline - asyncio.get_running_loop().time()
            if left <= 0:
                break
            await asyncio.wait({hurried, *self._tasks}, timeout=left, return_when=asyncio.FIRST_COMPLETED)
        hurried.cancel()
        for running in self._running.values():
            running.claim.cancel(WorkerLost("the worker was shut down before the answer was complete"))
        if self._tasks:
            await asyncio.wait(set(self._tasks), timeout=REPLY_TIMEOUT_S)

    # --- RQ's commands -------------------------------------------------------------------------------------------

    def _on_command(self, channel: bytes, data: bytes) -> None:
        try:
            self.handle_payload({"data": data})
        except Exception as error:  # anybody can publish anything there
            log.warning("a command was not understood", error=repr(error))

    def handle_payload(self, message: Any) -> None:
        payload = parse_payload(message)
        if payload["command"] == "stop-job":
            self.stop_execution(payload.get("job_id", ""), payload.get("reason", STOPPED))
        else:
            super().handle_payload(message)  # type: ignore[no-untyped-call]

    def request_stop_execution(self, execution_id: str) -> None:
        if execution := self.executions.get(execution_id):
            self.stop_execution(execution.job_id, STOPPED)

    def stop_execution(self, job_id: str, reason: str) -> None:
        if running := self._running.get(job_id):
            running.claim.cancel(Stopped(reason))

    def kill_horse(self, sig: signal.Signals = signal.SIGKILL) -> None:
        log.warning("kill-horse is ignored: executions share this process; use stop-job")
