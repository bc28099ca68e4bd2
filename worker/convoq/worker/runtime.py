"""What a worker process shares between its executions: HTTP pool, memory, parsed workflows."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Self

import aiohttp
import structlog
from redis.asyncio import Redis as AsyncRedis
from redis.exceptions import RedisError

from convoq.contract.services import Services
from convoq.credentials.lookup import CredentialLookup
from convoq.egress.session import Egress
from convoq.engine.reading import parse_workflow
from convoq.engine.report import stand_ins
from convoq.engine.workflow import Workflow
from convoq.errors import ConvoqError, NotFound
from convoq.expressions.sandbox import Sandbox
from convoq.memory.parts import MemoryParts
from convoq.memory.pools import Pools
from convoq.memory.redis_list import RedisMemories
from convoq.memory.summary import RedisFolds
from convoq.memory.thread import RedisThreads
from convoq.nodes.registry import REGISTRY
from convoq.redis import Pipe
from convoq.settings import Settings
from convoq.store.binaries import RedisBinaries
from convoq.store.workflows import WorkflowStore

log = structlog.get_logger()

MODEL_CONNECTIONS = 2000
"""Open connections to model servers at the most: well over what `concurrency` executions can use."""


class Runtime:
    def __init__(self, pipe: Pipe, client: AsyncRedis, settings: Settings) -> None:
        self._pipe = pipe
        self._store = WorkflowStore(client)
        self._workflows: dict[str, Workflow] = {}
        self._http: aiohttp.ClientSession | None = None
        pools = Pools(pipe, settings.redis_url, patience_s=settings.memory_patience_s)
        self.services = Services(
            settings=settings,
            open_memory=RedisMemories(pipe),
            http=self._session,
            credential=CredentialLookup(settings, pipe),
            binaries=RedisBinaries(pipe, settings),
            workflow=self._called,
            parts=[
                MemoryParts(RedisThreads(pipe), RedisFolds(pipe), pools),
                Sandbox.of(settings),
                Egress.of(settings),
            ],
        )

    async def __aenter__(self) -> Self:
        self._telling = asyncio.create_task(self._tell_stand_ins(), name="tell-stand-ins")
        return self

    async def __aexit__(self, *exc: object) -> None:
        self._telling.cancel()
        await asyncio.gather(self._telling, return_exceptions=True)
        if self._http is not None:
            await self._http.close()
        await self.services.close()

    async def find_workflow(self, workflow_id: str, version: str) -> Workflow:
        """The workflow in the version that the API saw, or in the newest where that one is gone."""
        kept = self._workflows.get(workflow_id)
        if kept is None or kept.version != version:
            kept = await self._store.get(workflow_id)
            if kept is None:
                raise NotFound(f"workflow {workflow_id!r} was deleted before this message was run")
            self._workflows[workflow_id] = kept
        return kept

    async def _tell_stand_ins(self) -> None:
        """In the log, at the start: which active workflows run with something in the place of a credential."""
        try:
            for record in await self._store.list():
                if record.active and (workflow := await self._store.get(record.id)) is not None:
                    for said in await stand_ins(workflow, self.services.credential):
                        log.warning("credential not known", workflow=workflow.name, node=said)
        except (ConvoqError, RedisError) as error:
            log.warning("workflows cannot be looked through", error=str(error))

    async def _called(self, workflow: str | Mapping[str, Any]) -> Workflow | None:
        """For a call by another workflow: the newest version of that id, or what the definition says."""
        if isinstance(workflow, str):
            return await self._store.get(workflow)
        return parse_workflow(workflow, source="called workflow", registry=REGISTRY)

    def _session(self) -> aiohttp.ClientSession:
        if self._http is None:
            connector = aiohttp.TCPConnector(limit=MODEL_CONNECTIONS, ttl_dns_cache=60)
            self._http = aiohttp.ClientSession(connector=connector, auto_decompress=True)
        return self._http
