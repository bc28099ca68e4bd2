"""Ending an execution from outside, waiting or running."""

from __future__ import annotations

import asyncio
import json

from convoq import keys
from convoq.delivery.takeover import Takeover
from convoq.errors import Unavailable
from convoq.redis import Pipe, load_script
from convoq.rq import PUBSUB_CHANNEL_TEMPLATE
from convoq.settings import Settings

ENDED = ("success", "error", "stopped")
STOP_ASK_S = 0.25
"""How often a worker is asked to stop: its command channel may have been cut just then."""


class Stopper:
    def __init__(self, pipe: Pipe, takeover: Takeover, settings: Settings) -> None:
        self._pipe = pipe
        self._takeover = takeover
        self._patience_s = 2 * settings.lease_s + 4
        self._script = load_script("stop")

    async def stop(self, execution_id: str, reason: str = "stopped on request") -> str:
        """End it and tell its final status. A lost worker is not waited for longer than its lease.

        Raises `Unavailable` when it cannot be confirmed.
        """
        try:
            async with asyncio.timeout(self._patience_s):
                while True:
                    status, worker = await self._pipe.command("HMGET", keys.execution(execution_id), "status", "worker")
                    if status is None or status.decode() in ENDED:
                        return "unknown" if status is None else str(status.decode())
                    if status == b"queued" and await self._takeover.stop_waiting(execution_id):
                        return "stopped"
                    if status == b"running":
                        await self.ask(execution_id, worker.decode(), reason)
                    await asyncio.sleep(STOP_ASK_S)
        except TimeoutError:
            raise Unavailable(f"execution {execution_id} has not stopped within {self._patience_s:g} s") from None

    async def ask(self, execution_id: str, worker: str, reason: str) -> None:
        """Tell the worker, by RQ's command channel and, should that be deaf, by a mark that its next renewal shows."""
        await self._pipe.run(
            self._script,
            [keys.execution(execution_id), PUBSUB_CHANNEL_TEMPLATE % worker],
            [reason, json.dumps({"command": "stop-job", "job_id": execution_id, "reason": reason})],
        )
