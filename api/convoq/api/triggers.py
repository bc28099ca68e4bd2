"""Which workflow a path belongs to, looked up in the store and kept for a moment."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from redis.exceptions import RedisError

from convoq.api.turnstile import Turnstile
from convoq.engine.workflow import ChatTriggerInfo, Workflow
from convoq.errors import InactiveWorkflow, UnknownPath
from convoq.redis import unavailable
from convoq.store.workflows import WorkflowStore

ANSWER_S = 5.0
KEEP_S = 1.0
"""How long a changed or deactivated workflow may go unnoticed; saves two round trips a message."""


@dataclass(frozen=True, slots=True)
class Chat:
    workflow: Workflow
    trigger: ChatTriggerInfo


class Triggers:
    def __init__(self, store: WorkflowStore) -> None:
        self._store = store
        self._kept: dict[str, tuple[float, Chat]] = {}
        self._lookups = Turnstile()

    async def find(self, path: str) -> Chat:
        """The active chat at that path, or at what n8n's form `PATH/chat` names, whether or not it ends in a slash.

        Those who ask for one path go on in the order in which they asked, whoever had to look it up.
        Raises `UnknownPath`, `InactiveWorkflow`, and `Unavailable` when Redis does not answer.
        """
        path = path.strip("/")
        if not self._lookups.busy(path) and (chat := self._known(path)):
            return chat
        try:
            async with asyncio.timeout(ANSWER_S), self._lookups.at(path):
                return self._known(path) or await self._look_up(path)
        except (RedisError, OSError, RuntimeError) as error:  # RuntimeError: what uvloop says of a closed connection
            raise unavailable(error) from error

    def _known(self, path: str) -> Chat | None:
        until, chat = self._kept.get(path, (0.0, None))
        return chat if until > asyncio.get_running_loop().time() else None

    async def _look_up(self, path: str) -> Chat:
        self._kept.pop(path, None)
        chat = await self._at(path) or await self._at(path.removesuffix("/chat"))
        if chat is None:
            raise UnknownPath(
                f"no chat at path {path!r}: import a workflow whose Chat Trigger has this path or webhookId"
            )
        if not chat.workflow.active:
            raise InactiveWorkflow(
                f"workflow {chat.workflow.name!r} has this path, but it is inactive", workflow=chat.workflow.id
            )
        self._kept[path] = (asyncio.get_running_loop().time() + KEEP_S, chat)
        return chat

    async def _at(self, path: str) -> Chat | None:
        workflow = await self._store.by_path(path)
        trigger = None if workflow is None else next((t for t in workflow.chat_triggers() if t.path == path), None)
        return None if workflow is None or trigger is None else Chat(workflow, trigger)
