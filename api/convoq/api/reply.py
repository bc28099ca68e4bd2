"""The shapes an answer can have, and which of them a client gets."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from enum import StrEnum

from starlette.responses import JSONResponse, Response
from starlette.types import Receive, Scope, Send

from convoq.api.relay import Reader
from convoq.errors import ConvoqError
from convoq.protocol import End, Error, Keepalive, Metadata, Queued, encode_line
from convoq.stream import Ended, Entry, number


class Form(StrEnum):
    NDJSON = "application/x-ndjson"
    SSE = "text/event-stream"
    JSON = "application/json"
    RECEIVED = "received"


BY_MODE = {"streaming": Form.NDJSON, "onReceived": Form.RECEIVED}
BY_ACCEPT = {
    "application/x-ndjson": Form.NDJSON,
    "application/jsonl": Form.NDJSON,
    "text/plain": Form.NDJSON,  # what the @n8n/chat widget asks a stream with
    "text/event-stream": Form.SSE,
    "application/json": Form.JSON,
}


NDJSON_KEEPALIVE = encode_line(Keepalive()) + b"\n"
SSE_KEEPALIVE = b": keepalive\n\n"


def negotiate(accept: str, response_mode: str) -> Form:
    """The first form that `Accept` names and convoq has; for `*/*` or nothing, what the response mode says."""
    for part in accept.split(","):
        media, _, options = part.partition(";")
        if "q=0" in options.replace(" ", "").split(";") or "q=0.0" in options.replace(" ", ""):
            continue
        if form := BY_ACCEPT.get(media.strip().lower()):
            return form
    return BY_MODE.get(response_mode, Form.JSON)


class StreamReply(Response):
    """Relays a joined reader to its client until the last entry, and closes it.

    A client that leaves stops the relay, never the execution.
    """

    def __init__(
        self,
        reader: Reader,
        form: Form,
        headers: Mapping[str, str],
        keepalive_s: float,
        *,
        position: int = 0,
        on_left: Callable[[], Awaitable[object]] | None = None,
    ) -> None:
        self._reader = reader
        self._form = form
        self._keepalive_s = keepalive_s
        self._position = position
        self._on_left = on_left
        self._done = False
        super().__init__(
            status_code=200,
            headers={
                **headers,
                "Content-Type": f"{form.value}; charset=utf-8",
                "Cache-Control": "no-cache, no-transform",
                "X-Accel-Buffering": "no",
            },
        )
        del self.headers["content-length"]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        watch = asyncio.create_task(self._watch(receive))
        try:
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            await self._relay(send)
            if not self._reader.left:
                await send({"type": "http.response.body", "body": b"", "more_body": False})
        except OSError:
            pass  # the client went away while we were sending; the execution goes on
        finally:
            watch.cancel()
            self._reader.close()
            if self._on_left is not None and not self._done:
                await self._on_left()

    async def _watch(self, receive: Receive) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        self._reader.leave()

    async def _relay(self, send: Send) -> None:
        if self._position:
            await self._send(send, self._body(Entry(0, 0, encode_line(Queued(self._position)) + b"\n")))
        while not self._done and not self._reader.left:
            try:
                entry = await self._reader.next(self._keepalive_s)
            except ConvoqError as error:
                nowhere = Metadata("", "")
                self._done = True
                await self._send(send, self._body(number([Error(error.message, error.code, nowhere), End(nowhere)], 0)))
                return
            if entry is not None:
                self._done = entry.end is not None
                await self._send(send, self._body(entry))
            elif not self._reader.left:
                await self._send(send, SSE_KEEPALIVE if self._form is Form.SSE else NDJSON_KEEPALIVE)

    async def _send(self, send: Send, body: bytes) -> None:
        if body:
            await send({"type": "http.response.body", "body": body, "more_body": True})

    def _body(self, entry: Entry) -> bytes:
        if self._form is not Form.SSE:
            return entry.lines
        lines = entry.lines.splitlines()
        if not entry.count:
            return b"".join(b"data: %s\n\n" % line for line in lines)
        return b"".join(b"id: %d\ndata: %s\n\n" % (seq, line) for seq, line in enumerate(lines, entry.first))


def json_reply(ended: Ended, headers: Mapping[str, str]) -> JSONResponse:
    """The one JSON answer of a client that does not read a stream."""
    if ended.error is not None:
        return JSONResponse(ended.error, ended.http_status, headers)
    return JSONResponse(ended.reply, 200, headers)
