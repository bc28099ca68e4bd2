"""CORS on every answer, errors included: a browser must be able to read why it was refused."""

from __future__ import annotations

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

EXPOSED = "X-Execution-Id, X-Stream-Token, Retry-After"
METHODS = "GET, POST, OPTIONS"
PREFLIGHT_AGE_S = 300
PRIVATE = "/api/"
"""No CORS here: other people's pages must not reach the management API of somebody's localhost."""


def allowed(origin: str, allowed_origins: str) -> bool:
    """Whether a trigger's comma list (`*` for all) lets that origin in. Spaces around entries do not matter."""
    entries = [entry.strip().rstrip("/") for entry in allowed_origins.split(",")]
    return "*" in entries or origin.rstrip("/") in entries


class Cors:
    """Echoes the request's origin; whether an origin may chat at all is the route's decision (403)."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = Headers(scope=scope) if scope["type"] == "http" else Headers()
        origin = headers.get("origin")
        if origin is None or scope["path"].startswith(PRIVATE):
            return await self._app(scope, receive, send)

        async def with_cors(message: Message) -> None:
            if message["type"] == "http.response.start":
                answer = MutableHeaders(scope=message)
                answer["Access-Control-Allow-Origin"] = origin
                answer["Access-Control-Expose-Headers"] = EXPOSED
                answer.add_vary_header("Origin")
            await send(message)

        if scope["method"] == "OPTIONS" and "access-control-request-method" in headers:
            preflight = {
                "Access-Control-Allow-Methods": METHODS,
                "Access-Control-Allow-Headers": headers.get("access-control-request-headers", "Content-Type"),
                "Access-Control-Max-Age": str(PREFLIGHT_AGE_S),
            }
            raw = [(name.lower().encode(), value.encode()) for name, value in preflight.items()]
            await with_cors({"type": "http.response.start", "status": 204, "headers": raw})
            return await send({"type": "http.response.body", "body": b""})
        await self._app(scope, receive, with_cors)
