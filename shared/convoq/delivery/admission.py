"""Messages on their way to a worker: one message is one RQ job, the turns of a session one after the other."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import msgpack
import msgspec
import redis

from convoq import keys
from convoq.errors import BadRequest, Overloaded, SessionBusy
from convoq.ids import new_execution_id, new_token
from convoq.redis import RETRY_AFTER_S, Argument, Pipe, load_script
from convoq.rq import Job, JobStatus, Queue, RateLimitRegistry, build_hset_args, now, utcformat
from convoq.settings import Settings, WhenBusy

JOB_FUNCTION = "convoq.worker.job.run"


class MsgpackSerializer:
    """RQ's serializer: data only, so a message can never become code (RQ's default is pickle)."""

    @staticmethod
    def dumps(value: Any) -> bytes:
        return cast(bytes, msgpack.packb(value))

    @staticmethod
    def loads(data: bytes) -> Any:
        return msgpack.unpackb(data)


class Request(msgspec.Struct, frozen=True):
    """What one execution is asked to do: the job's arguments.

    `item` is the Chat Trigger's output; `stream` tells that somebody listens for chunks, `reasoning` that the client
    asked for what models think; `version` is the workflow's content hash as the API saw it.
    """

    workflow_id: str
    version: str
    trigger: str
    session_id: str
    item: dict[str, Any]
    stream: bool
    reasoning: bool = False


def join(request: Request, items: Sequence[dict[str, Any]]) -> Request:
    """A message and those that joined it while it waited, as one: their texts are its paragraphs."""
    texts = [item.get("chatInput", "") for item in (request.item, *items)]
    return msgspec.structs.replace(request, item={**request.item, "chatInput": "\n\n".join(filter(None, texts))})


@dataclass(frozen=True, slots=True)
class Terms:
    """How a message wants to be taken. `once` is the client's idempotency key, if it sent one."""

    when_busy: WhenBusy
    merge_window_s: float = 0.0
    once: str | None = None


@dataclass(frozen=True, slots=True)
class Admitted:
    """An accepted message. `token` opens its stream again; `position` is the number of turns ahead of it.

    The execution is another than the one asked for where the message was sent before, or joined one that waits.
    `in_the_way` are executions to be ended now: they were displaced, or are interrupted.
    """

    execution_id: str
    token: str
    position: int
    in_the_way: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Slot:
    """A session's place in RQ's rate limiter: its keys."""

    key: str
    config: str
    allowed: str
    limited: str

    @classmethod
    def of(cls, session_key: str) -> Slot:
        registry = RateLimitRegistry.__new__(RateLimitRegistry)  # its names only: made whole, it hashes four scripts
        registry.key = session_key
        return cls(session_key, registry.config_key, registry.allowed_key, registry.rate_limited_key)


class ChatQueue:
    """The queue's sending end. `connection` is only a name to RQ's classes here: nothing is sent on it."""

    def __init__(self, pipe: Pipe, connection: redis.Redis, settings: Settings) -> None:
        self._pipe = pipe
        self._connection = connection
        self._settings = settings
        self._queue = Queue(settings.queue, connection=connection, serializer=MsgpackSerializer)
        self._admit = load_script("admit")

    def new_id(self) -> str:
        return new_execution_id()

    async def admit(self, execution_id: str, request: Request, terms: Terms | None = None) -> Admitted:
        """Accept a message. Its place in the session is that of this call's arrival at the server.

        Raises `SessionBusy` (policy `reject`), `Overloaded` (too many wait), and `BadRequest` where the idempotency
        key came with another message before.
        """
        settings = self._settings
        terms = terms or Terms(settings.when_busy, settings.merge_window_s)
        key = keys.session(request.workflow_id, request.session_id)
        slot = Slot.of(key)
        token = new_token()
        job = self._job(execution_id, request, key)
        item = msgspec.json.encode(request.item)
        once = "" if terms.once is None else keys.submission(request.workflow_id, request.session_id, terms.once)
        record: list[Argument] = [
            *("workflow", request.workflow_id, "version", request.version, "session", request.session_id),
            *("trigger", request.trigger),
            *("queue", settings.queue, "slot", key, "reader", token, "created", int(time.time() * 1000)),
        ]
        what, found, position, *in_the_way = await self._pipe.run(
            self._admit,
            [
                *(keys.execution(execution_id), job.key, slot.config, slot.allowed, slot.limited),
                *(RateLimitRegistry.rl_keys_key, self._queue.key, Queue.redis_queues_keys),
                *(keys.WAITING, keys.LEASES, once, keys.joined("")[len(keys.execution("")) :]),
            ],
            [
                *(execution_id, key, settings.execution_ttl_s, utcformat(now()), terms.when_busy),
                *(settings.max_waiting, terms.merge_window_s, hashlib.sha256(item).hexdigest(), item),
                *(settings.session_records_ttl_s, len(record), *record, *build_hset_args(job)),
            ],
        )
        answer, found_id = what.decode(), found.decode()
        if answer == "full":
            raise Overloaded(
                f"{position} messages wait already (CONVOQ_MAX_WAITING): try again later", retry_after=RETRY_AFTER_S
            )
        if answer == "busy":
            raise SessionBusy(f"execution {found_id} of this session is not done yet", execution=found_id)
        if answer == "conflict":
            raise BadRequest("this Idempotency-Key came with another message before", execution=found_id)
        if found_id != execution_id:
            token = (await self._pipe.command("HGET", keys.execution(found_id), "reader") or b"").decode()
        return Admitted(found_id, token, position, [one.decode() for one in in_the_way])

    def _job(self, execution_id: str, request: Request, slot: str) -> Job:
        settings = self._settings
        job = Job.create(
            JOB_FUNCTION,
            args=[execution_id, msgspec.to_builtins(request)],
            id=execution_id,
            origin=settings.queue,
            connection=self._connection,
            serializer=MsgpackSerializer,
            description=f"chat {request.workflow_id}",  # RQ's own would quote the user's message
            timeout=settings.job_timeout_s,
            result_ttl=settings.stream_ttl_s,
            failure_ttl=settings.failure_ttl_s,
            status=JobStatus.RATE_LIMITED,
        )
        job.rate_limit_key, job.rate_limit_concurrency = slot, 1
        return job
