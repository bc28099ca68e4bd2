"""Whether this process lives, and whether a message sent to it would be answered."""

from __future__ import annotations

import asyncio

from starlette.requests import Request as HttpRequest
from starlette.responses import JSONResponse, Response

from convoq import keys
from convoq.api.state import state_of
from convoq.errors import ConvoqError

CHECK_S = 0.8
"""Below the second that orchestrators give a probe."""


async def alive(http: HttpRequest) -> Response:
    return JSONResponse({"status": "ok"})


async def ready(http: HttpRequest) -> Response:
    """200 when Redis answers and at least one worker takes jobs; else 503 that names what is missing."""
    checks = {"redis": "ok", "workers": "ok"}
    workers = 0
    try:
        state = state_of(http)
        async with asyncio.timeout(CHECK_S):
            seconds, _ = await state.pipe.command("TIME")
            workers = await state.pipe.command("ZCOUNT", keys.WORKERS, f"({int(seconds)}", "+inf")
        checks["redis"] = state.pipe.trouble or "ok"
        if not workers:
            checks["workers"] = "no worker takes jobs: start one with `convoq worker`"
    except TimeoutError:
        why = state.pipe.trouble or state.pipe.away
        checks = {"redis": why or f"no answer within {CHECK_S:g} s", "workers": "not known"}
    except ConvoqError as error:
        checks = {"redis": error.message, "workers": "not known"}
    ok = set(checks.values()) == {"ok"}
    shown = {"status": "ok" if ok else "unavailable", "workers": workers, "checks": checks}
    return JSONResponse(shown, 200 if ok else 503)
