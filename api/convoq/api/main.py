"""The API process."""

from __future__ import annotations

import uvicorn

from convoq.api.app import create_app
from convoq.process import set_up
from convoq.settings import Settings


def serve(settings: Settings) -> None:
    """Run until SIGTERM or SIGINT: running answers are relayed to their end for `drain_s`, then cut."""
    set_up(settings)
    uvicorn.run(
        create_app(settings),
        host=settings.host,
        port=settings.port,
        log_level="warning" if settings.log_level == "info" else settings.log_level,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=int(settings.drain_s),
        timeout_keep_alive=75,
        h11_max_incomplete_event_size=64 << 10,
        ws="none",
    )
