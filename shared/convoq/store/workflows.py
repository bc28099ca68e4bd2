"""Where the workflow definitions are: in Redis, without a time-to-live.

convoq:wf:{id}     hash   json (n8n's format), name, active (0|1), version, updated (s since 1970), paths (JSON)
convoq:wf:index    zset   id, by the time of its last change
convoq:wf:paths    hash   chat path -> workflow id, newline, node name
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from redis.asyncio import Redis
from redis.asyncio.client import Pipeline
from redis.exceptions import WatchError

from convoq.engine.reading import parse_workflow, parse_workflow_text
from convoq.engine.workflow import Workflow
from convoq.errors import Conflict, NotFound
from convoq.keys import PREFIX
from convoq.nodes.registry import REGISTRY

INDEX = f"{PREFIX}wf:index"
PATHS = f"{PREFIX}wf:paths"


Field = bytes | bytearray | memoryview | str | int | float


def _key(workflow_id: str) -> str:
    return f"{PREFIX}wf:{workflow_id}"


@dataclass(frozen=True, slots=True)
class WorkflowRecord:
    """What is listed of a stored workflow. `updated` is in seconds since 1970."""

    id: str
    name: str
    active: bool
    version: str
    updated: float
    paths: tuple[str, ...]


class WorkflowStore:
    """All operations raise redis-py's errors where the server cannot be reached."""

    def __init__(self, client: Redis, clock: Callable[[], float] = time.time) -> None:
        """`client` must give bytes."""
        self._client = client
        self._clock = clock

    async def save(self, workflow: Workflow) -> WorkflowRecord:
        """Add it, or replace the one of the same id, paths included, in one step.

        Raises `Conflict` where another workflow has one of its paths, and `InvalidWorkflow`.
        """
        definition = {**workflow.definition, "id": workflow.id, "name": workflow.name, "active": workflow.active}
        stored = parse_workflow(
            definition, source=workflow.name, registry=REGISTRY
        )  # its version is that of what readers will parse
        owners: dict[Field, Field] = {
            trigger.path: f"{stored.id}\n{trigger.node.name}" for trigger in stored.chat_triggers()
        }
        record = WorkflowRecord(
            stored.id,
            stored.name,
            stored.active,
            stored.version,
            self._clock(),
            tuple(trigger.path for trigger in stored.chat_triggers()),
        )
        fields: dict[Field, Field] = {
            "json": json.dumps(definition, ensure_ascii=False, separators=(",", ":")),
            "name": record.name,
            "active": int(record.active),
            "version": record.version,
            "updated": record.updated,
            "paths": json.dumps(record.paths),
        }

        def change(transaction: Pipeline, held: Mapping[str, str]) -> None:
            for path in record.paths:
                if (owner := held.get(path, stored.id)) != stored.id:
                    raise Conflict(
                        f"path {path!r} of workflow {stored.name!r} belongs to workflow {owner!r}: "
                        "give one of them another path, or delete that one",
                        path=path,
                        workflow=owner,
                    )
            if old := [path for path, owner in held.items() if owner == stored.id and path not in owners]:
                transaction.hdel(PATHS, *old)
            if owners:
                transaction.hset(PATHS, mapping=owners)
            transaction.hset(_key(stored.id), mapping=fields)
            transaction.zadd(INDEX, {stored.id: record.updated})

        await self._transaction(change)
        return record

    async def delete(self, workflow_id: str) -> None:
        """Raises `NotFound`."""

        def change(transaction: Pipeline, held: Mapping[str, str]) -> None:
            if own := [path for path, owner in held.items() if owner == workflow_id]:
                transaction.hdel(PATHS, *own)
            transaction.delete(_key(workflow_id))
            transaction.zrem(INDEX, workflow_id)

        if not (await self._transaction(change))[-1]:
            raise _unknown(workflow_id)

    async def get(self, workflow_id: str) -> Workflow | None:
        text = await self._client.hget(_key(workflow_id), "json")
        return None if text is None else parse_workflow_text(text, source=workflow_id, registry=REGISTRY)

    async def by_path(self, path: str) -> Workflow | None:
        """The workflow whose chat trigger has that path, active or not."""
        owner = await self._client.hget(PATHS, path)
        return None if owner is None else await self.get(_owner(cast(bytes, owner)))

    async def list(self) -> Sequence[WorkflowRecord]:
        """The newest change first."""
        ids = [found.decode() for found in cast("Sequence[bytes]", await self._client.zrange(INDEX, 0, -1, desc=True))]
        async with self._client.pipeline(transaction=False) as pipeline:
            for workflow_id in ids:
                pipeline.hmget(_key(workflow_id), "name", "active", "version", "updated", "paths")
            rows = await pipeline.execute()
        return [
            WorkflowRecord(
                workflow_id, name.decode(), active == b"1", version.decode(), float(updated), tuple(json.loads(paths))
            )
            for workflow_id, (name, active, version, updated, paths) in zip(ids, rows, strict=True)
            if name is not None  # deleted meanwhile
        ]

    async def export(self, workflow_id: str) -> dict[str, Any]:
        """The definition in n8n's format. Raises `NotFound`."""
        text = await self._client.hget(_key(workflow_id), "json")
        if text is None:
            raise _unknown(workflow_id)
        definition: dict[str, Any] = json.loads(text)
        return definition

    async def _transaction(self, change: Callable[[Pipeline, Mapping[str, str]], None]) -> Sequence[Any]:
        """The replies of a MULTI that `change` fills, given path -> workflow id, on which it may depend."""
        async with self._client.pipeline(transaction=True) as pipeline:
            while True:
                try:
                    await pipeline.watch(PATHS)
                    held = cast("dict[bytes, bytes]", await pipeline.hgetall(PATHS))
                    pipeline.multi()
                    change(pipeline, {path.decode(): _owner(owner) for path, owner in held.items()})
                    replies: Sequence[Any] = await pipeline.execute()
                    return replies
                except WatchError:
                    continue


def _owner(value: bytes) -> str:
    return value.decode().partition("\n")[0]


def _unknown(workflow_id: str) -> NotFound:
    return NotFound(f"no workflow with the id {workflow_id!r}")
