"""The API process."""

from __future__ import annotations

import asyncio
import signal
import socket
from contextlib import suppress
from types import FrameType

import structlog
import uvicorn

from convoq.api.app import create_app
from convoq.api.control import Control
from convoq.api.door import door
from convoq.errors import ConvoqError
from convoq.process import SIGNALS, set_up
from convoq.settings import Settings

log = structlog.get_logger()

CUT_S = 0.3
"""What streams that are cut get for their last words."""


def serve(settings: Settings) -> None:
    """Run until SIGTERM or SIGINT: running answers are relayed to their end for `drain_s`, then cut.

    Raises `Unavailable` where Redis refuses in a way that waiting does not mend.
    """
    set_up(settings)
    server = Server(settings)
    for number in SIGNALS:  # from now on, and at the very end, too: uvicorn puts back what it has found
        signal.signal(number, server.handle_exit)
    server.run()
    if server.refusal is not None:
        raise server.refusal


class Server(uvicorn.Server):
    """`refusal` is why it ended by itself."""

    def __init__(self, settings: Settings) -> None:
        self.refusal: ConvoqError | None = None
        self._drain_s = settings.drain_s
        self._hurried = asyncio.Event()
        self._control = Control(self._refuse)
        super().__init__(
            uvicorn.Config(
                create_app(settings, self._control),
                host=settings.host,
                port=settings.port,
                log_level="warning" if settings.log_level == "info" else settings.log_level,
                access_log=False,
                server_header=False,
                timeout_graceful_shutdown=int(settings.drain_s + 2 * CUT_S) + 1,
                timeout_keep_alive=75,
                http=door(settings),
                ws="none",
            )
        )

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """The first signal lets answers come to their end, the next does not. uvicorn would break off in the middle,
        for SIGINT only, and raise them all again at the end."""
        if self.should_exit:
            self._hurried.set()
        self.should_exit = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        end = asyncio.create_task(self._end_answers())
        await super().shutdown(sockets)
        end.cancel()

    async def _end_answers(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(self._drain_s):
                await self._hurried.wait()
        self._control.cut()
        await asyncio.sleep(CUT_S)
        for task in list(self.server_state.tasks):  # who still sends a body, or waits for Redis
            task.cancel()

    def _refuse(self, error: Exception) -> None:
        if isinstance(error, ConvoqError):
            self.refusal = error
        else:
            log.error("the API broke", exc_info=error)
            self.refusal = ConvoqError(f"internal error: {type(error).__name__}")
        self.should_exit = True
