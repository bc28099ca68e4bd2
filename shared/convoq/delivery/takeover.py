"""What nobody holds any more is settled by whoever notices first, exactly once.

An execution whose worker went silent is run again elsewhere when nothing of it was seen and nothing was done that
counts, else ended with an error; a waiting one that a newer message displaced is ended; one that others could join goes
on when that time is over. API processes and workers all watch; the scripts see to it that one of them acts.
"""

from __future__ import annotations

import asyncio
import random
import zlib
from dataclasses import dataclass

import redis
import structlog

from convoq import keys
from convoq.delivery import ledger
from convoq.delivery.admission import MsgpackSerializer, Slot
from convoq.delivery.entries import Ended, Entry, number, read_log
from convoq.delivery.finish import Finisher
from convoq.errors import ConvoqError, Displaced, Stopped, WorkerLost
from convoq.protocol import End, Error, Item, Metadata, Retry, decode_line, encode_line
from convoq.redis import RECONNECT_S, Pipe, load_script
from convoq.rq import Execution, Job, Queue, now, utcformat
from convoq.settings import Settings

log = structlog.get_logger()

WATCH_S = 0.5
PAGE = 100
AT_ONCE = 20
PARTIAL_CHARS = 100_000
FIELDS = ("status", "attempt", "seq", "effects", "token", "queue", "slot", "rq", "worker", "displaced_by", "stop")


@dataclass(frozen=True, slots=True)
class Record:
    """What a settler must know of an execution. `rq` is RQ's id of the attempt, empty before it was noted."""

    id: str
    status: str
    attempt: int
    seq: int
    effects: bool
    token: str
    queue: str
    slot: str
    rq: str
    worker: str
    displaced_by: str
    stop: str


class Takeover:
    def __init__(self, pipe: Pipe, connection: redis.Redis, settings: Settings) -> None:
        self._pipe = pipe
        self._connection = connection
        self._settings = settings
        self._finisher = Finisher(pipe, connection, settings)
        self._lapsed, self._requeue, self._due = load_script("lapsed"), load_script("requeue"), load_script("due")

    async def watch(self) -> None:
        """Look for what lapsed until cancelled. After an outage workers first get the time to renew their leases."""
        loop = asyncio.get_running_loop()
        patient_until = 0.0
        while True:
            asked = loop.time()
            try:
                found = await self._pipe.run(self._lapsed, [keys.LEASES], [PAGE])
                if loop.time() - asked > self._settings.lease_s / 3:
                    patient_until = loop.time() + RECONNECT_S[-1] + self._settings.lease_s / 3
                if loop.time() >= patient_until:
                    await self._settle_all([execution_id.decode() for execution_id in found])
            except Exception:  # a watchman that is dead is worse than one that complains
                log.exception("cannot settle what lapsed")
            await asyncio.sleep(WATCH_S)

    async def _settle_all(self, ids: list[str]) -> None:
        """Many at once, as a worker that dies leaves many; each watchman in an order of its own, to share the work."""
        random.shuffle(ids)
        for batch in (ids[at : at + AT_ONCE] for at in range(0, len(ids), AT_ONCE)):
            for answer in await asyncio.gather(*map(self.settle, batch), return_exceptions=True):
                if isinstance(answer, BaseException):
                    log.error("cannot settle an execution", exc_info=answer)

    async def settle(self, execution_id: str) -> None:
        """See to one execution whose time is over. Harmless when it is not, or when somebody else was first."""
        record = await self._read(execution_id)
        if record is None or record.status not in ("queued", "running"):
            await self._pipe.command("ZREM", keys.LEASES, execution_id)
        elif record.status == "queued":
            if record.displaced_by:
                error = Displaced(f"a newer message of this session took its place: execution {record.displaced_by}")
                await self.end_waiting(record, error)
            else:
                await self._let_through(record)
        elif record.stop:
            await self._fail(record, Stopped(record.stop))
        elif record.seq or record.effects or record.attempt >= self._settings.max_attempts:
            tries = f" in attempt {record.attempt}" if record.attempt > 1 else ""
            message = f"worker {record.worker} was lost{tries} before the answer was complete"
            await self._fail(record, WorkerLost(message))
        else:
            await self._run_again(record)

    async def stop_waiting(self, execution_id: str) -> bool:
        """Stop an execution that no worker has taken yet. False: it is not waiting (any more)."""
        record = await self._read(execution_id)
        return record is not None and await self.end_waiting(record, Stopped("stopped on request"))

    async def end_waiting(self, record: Record, error: ConvoqError) -> bool:
        job = await self._job(record)
        ended = Ended.by(error)
        entry = number(_last_words(error), record.seq, ended)
        commands = ledger.cancelled(self._connection, job, error.message)
        return await self._finisher.finish(record.id, record.token, "queued", record.slot, ended, entry, commands) == 1

    async def _fail(self, record: Record, error: ConvoqError) -> None:
        ended = Ended.by(error)
        entry = number(_last_words(error), record.seq, ended)
        job = await self._job(record)
        commands = ledger.abandoned(self._connection, job, self._execution(record), error.message)
        partial = await self._partial(record.id)
        done = await self._finisher.finish(
            record.id, record.token, "lapsed", record.slot, ended, entry, commands, partial=partial
        )
        if done == 1:
            log.warning("execution failed: its worker is lost", execution=record.id, worker=record.worker)

    async def _run_again(self, record: Record) -> None:
        job = await self._job(record)
        note = Entry(0, 0, encode_line(Retry(record.attempt + 1)) + b"\n").pack()
        commands = ledger.abandoned(self._connection, job, self._execution(record), None)
        done = await self._pipe.run(
            self._requeue,
            [keys.execution(record.id), keys.LEASES, keys.WAITING, Queue.redis_queue_namespace_prefix + record.queue],
            [record.id, record.token, note, *commands],
        )
        if done:
            log.warning("execution runs again: its worker is lost", execution=record.id, worker=record.worker)

    async def _let_through(self, record: Record) -> None:
        slot = Slot.of(record.slot)
        names = [keys.execution(record.id), keys.LEASES, slot.allowed, slot.limited]
        await self._pipe.run(self._due, names, [record.id, utcformat(now())])

    async def _read(self, execution_id: str) -> Record | None:
        values = await self._pipe.command("HMGET", keys.execution(execution_id), *FIELDS)
        if values[0] is None:
            return None
        status, attempt, seq, effects, *texts = (b"" if value is None else value for value in values)
        return Record(
            execution_id, status.decode(), int(attempt), int(seq), bool(effects), *(text.decode() for text in texts)
        )

    async def _job(self, record: Record) -> Job:
        job = Job(record.id, connection=self._connection, serializer=MsgpackSerializer)
        fields = await self._pipe.command("HGETALL", job.key)
        job.restore({b"data": zlib.compress(b""), **dict(zip(fields[::2], fields[1::2], strict=True))})
        job.origin, job.failure_ttl = record.queue, self._settings.failure_ttl_s
        return job

    def _execution(self, record: Record) -> Execution | None:
        if not record.rq:
            return None
        return Execution(record.rq, record.id, self._connection, record.worker)

    async def _partial(self, execution_id: str) -> str:
        """What of the answer had been seen."""
        texts: list[str] = []
        seq = 0
        while entries := await read_log(self._pipe, execution_id, seq):
            for entry in entries:
                lines = map(decode_line, entry.lines.splitlines())
                texts += (line.content for line in lines if isinstance(line, Item))
            if entries[-1].end is not None:
                break
            seq = entries[-1].next
        return "".join(texts)[:PARTIAL_CHARS]


def _last_words(error: ConvoqError) -> list[Error | End]:
    nowhere = Metadata("", "")
    return [Error(error.message, error.code, nowhere), End(nowhere)]
