"""The sessions of a workflow, for people: listed, read, deleted.

A session is in the index from its first message until all that its messages left has expired: memories, thread,
streams, records, RQ's jobs. `lua/sessions.lua` writes the index in the steps that make those.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any
from urllib.parse import quote, unquote

from convoq import keys
from convoq.contract.services import Services
from convoq.delivery.stopping import Stopper
from convoq.errors import Conflict, NotFound
from convoq.memory.thread import decode_exchange
from convoq.redis import Pipe, load_script
from convoq.store.elsewhere import clear_session
from convoq.store.workflows import WorkflowStore

DELETE_TRIES = 20
"""Passes over a session whose client goes on sending while it is being deleted."""
RECORD_FIELDS = ("status", "created", "started", "ended", "worker", "error", "partial")


@dataclass(frozen=True, slots=True)
class SessionInfo:
    """`last_activity` is in seconds since 1970. `turns` are the exchanges that its thread holds; `bytes` what thread
    and memories take in Redis; `expires_in_s` when the last of them goes if nothing more is said, None where all have
    gone and only records of executions are left."""

    id: str
    last_activity: float
    executions: int
    turns: int
    bytes: int
    expires_in_s: int | None

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Deleted:
    """`keys` of convoq's Redis that are gone; `not_cleared` are memories on other servers that stayed, and why."""

    id: str
    keys: int
    not_cleared: list[str]


class SessionStore:
    def __init__(self, pipe: Pipe, stopper: Stopper, workflows: WorkflowStore, services: Services) -> None:
        self._pipe = pipe
        self._stopper = stopper
        self._workflows = workflows
        self._services = services
        self._summary, self._forget = load_script("session_summary"), load_script("forget")

    async def page(self, workflow_id: str, *, offset: int = 0, limit: int = 100) -> tuple[list[SessionInfo], int]:
        """A page, the latest activity first, and how many there are."""
        key = keys.sessions(workflow_id)
        total = self._pipe.send("ZCARD", key)
        found = await self._pipe.command("ZREVRANGE", key, offset, offset + limit - 1, "WITHSCORES")
        asked = [
            (unquote(member.decode()), float(score)) for member, score in zip(found[::2], found[1::2], strict=True)
        ]
        replies = [self._pipe.start(self._summary, self._places(workflow_id, name), []) for name, _ in asked]
        infos = [_info(name, score, await reply) for (name, score), reply in zip(asked, replies, strict=True)]
        return infos, await total

    async def info(self, workflow_id: str, session_id: str) -> SessionInfo:
        """Raises `NotFound`."""
        score = await self._pipe.command("ZSCORE", keys.sessions(workflow_id), quote(session_id, safe=""))
        if score is None:
            raise NotFound(f"workflow {workflow_id!r} has no session {session_id!r}")
        counts = await self._pipe.run(self._summary, self._places(workflow_id, session_id), [])
        return _info(session_id, float(score), counts)

    async def export(self, workflow_id: str, session_id: str) -> dict[str, Any]:
        """All that is kept of a session, as JSON: thread, memories, executions. Raises `NotFound`."""
        info = await self.info(workflow_id, session_id)
        thread = await self._pipe.command("LRANGE", keys.thread(workflow_id, session_id), 0, -1)
        memories = []
        for key in await self._memories(workflow_id, session_id):
            elements = await self._pipe.command("LRANGE", key, 0, -1)
            memories.append({"key": key, "elements": [json.loads(element) for element in elements]})
        ids = await self._pipe.command("ZRANGE", keys.session_executions(workflow_id, session_id), 0, -1)
        executions = [await self._execution(execution_id.decode()) for execution_id in ids]
        return {
            "workflow": workflow_id,
            **info.as_dict(),
            "thread": [_exchange(raw) for raw in thread],
            "memories": memories,
            "execution_records": [record for record in executions if record is not None],
        }

    async def matching(self, workflow_id: str, prefix: str) -> Sequence[str]:
        """The sessions whose id begins so."""
        found = await self._pipe.command("ZRANGE", keys.sessions(workflow_id), 0, -1)
        return [name for name in (unquote(member.decode()) for member in found) if name.startswith(prefix)]

    async def delete(self, workflow_id: str, session_id: str) -> Deleted:
        """Stop what runs or waits of the session, then remove all that is kept of it: on convoq's Redis in one step,
        then what its memories hold on other servers.

        Raises `NotFound`, `Unavailable` (something does not stop), `Conflict` (messages keep coming).
        """
        known = await self._pipe.command("ZSCORE", keys.sessions(workflow_id), quote(session_id, safe="")) is not None
        keys_gone = await self._delete_here(workflow_id, session_id) if known else 0
        workflow = await self._workflows.get(workflow_id)
        left = [] if workflow is None else await clear_session(workflow, session_id, self._services)
        if not known and not left:  # asked again after another server had failed, it has been cleared now
            raise NotFound(f"workflow {workflow_id!r} has no session {session_id!r}")
        return Deleted(session_id, keys_gone, left)

    async def _delete_here(self, workflow_id: str, session_id: str) -> int:
        executions, others, thread = self._places(workflow_id, session_id)
        names = [keys.sessions(workflow_id), executions, others, thread, keys.LEASES, keys.WAITING]
        for _ in range(DELETE_TRIES):
            left = await self._pipe.run(self._forget, names, [quote(session_id, safe="")])
            if isinstance(left, int):
                return left
            for execution_id in reversed(left):  # the waiting ones first, lest the end of one lets the next begin
                await self._stopper.stop(execution_id.decode(), "its session is deleted")
        raise Conflict(f"session {session_id!r} was not deleted: messages of it keep coming")

    def _places(self, workflow_id: str, session_id: str) -> list[str]:
        return [
            keys.session_executions(workflow_id, session_id),
            keys.session_keys(workflow_id, session_id),
            keys.thread(workflow_id, session_id),
        ]

    async def _memories(self, workflow_id: str, session_id: str) -> Sequence[str]:
        known = await self._pipe.command("ZRANGE", keys.session_keys(workflow_id, session_id), 0, -1)
        return sorted(key.decode() for key in known if key.startswith(f"{keys.PREFIX}mem:".encode()))

    async def _execution(self, execution_id: str) -> dict[str, Any] | None:
        values = await self._pipe.command("HMGET", keys.execution(execution_id), *RECORD_FIELDS)
        if values[0] is None:
            return None
        data = await self._pipe.command("GET", keys.run_data(execution_id))
        record: dict[str, Any] = {
            name: value.decode() for name, value in zip(RECORD_FIELDS, values, strict=True) if value
        }
        record |= {name: int(record[name]) for name in ("created", "started", "ended") if name in record}
        record["error"] = json.loads(record.get("error", "null"))
        return {"id": execution_id, **record, "data": None if data is None else json.loads(data)}


def _info(name: str, last_activity: float, counts: Sequence[int]) -> SessionInfo:
    executions, turns, size, ttl = counts
    return SessionInfo(name, last_activity, executions, turns, size, None if ttl < 0 else ttl)


def _exchange(raw: bytes) -> dict[str, Any]:
    exchange = decode_exchange(raw)
    return {name: getattr(exchange, name) for name in exchange.__struct_fields__}
