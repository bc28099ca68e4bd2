"""The shapes an answer can have, and which of them a client gets."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from enum import StrEnum

from starlette.responses import JSONResponse, Response
from starlette.types import Receive, Scope, Send

from convoq.api.relay import Reader
from convoq.api.words import Words
from convoq.contract.binary import BinaryStore
from convoq.contract.items import Binary
from convoq.delivery.entries import Entry, number
from convoq.errors import ConvoqError
from convoq.protocol import End, Error, Keepalive, Metadata, Queued, decode_line, encode_line
from convoq.protocol import Response as NodeResponse


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


RESPONSE_LINE = b'{"type":"response"'
"""How the line of a node's response begins."""
BODILESS = (204, 304)
GUARDS = {
    "content-security-policy": "sandbox allow-downloads allow-forms allow-modals allow-popups allow-scripts",
    "x-content-type-options": "nosniff",
}
"""A workflow's page must not act as one of convoq's own: it has an origin of its own."""
NDJSON_KEEPALIVE = encode_line(Keepalive()) + b"\n"
SSE_KEEPALIVE = b": keepalive\n\n"


def wants_reasoning(accept: str) -> bool:
    """Whether the client asked for what models think, by a parameter of its form: `text/event-stream; reasoning=true`.
    One that does not know of it, as n8n's widget, is sent none."""
    for part in accept.lower().split(","):
        media, *options = (piece.strip() for piece in part.split(";"))
        if media in BY_ACCEPT and "reasoning=true" in options:
            return True
    return False


def negotiate(accept: str, response_mode: str) -> Form:
    """The first form that `Accept` names and convoq has; for `*/*` or nothing, what the response mode says."""
    for part in accept.split(","):
        media, _, options = part.partition(";")
        if "q=0" in options.replace(" ", "").split(";") or "q=0.0" in options.replace(" ", ""):
            continue
        if form := BY_ACCEPT.get(media.strip().lower()):
            return form
    return BY_MODE.get(response_mode, Form.JSON)


class _Reply(Response):
    """An answer that takes its time: follows a joined reader to its last entry, and closes it.

    A client that leaves ends the reply, never the execution, unless `on_left` does.
    """

    def __init__(
        self,
        reader: Reader,
        words: Words,
        headers: Mapping[str, str],
        keepalive_s: float,
        *,
        on_left: Callable[[], Awaitable[object]] | None = None,
    ) -> None:
        super().__init__(headers=headers)
        del self.headers["content-length"]
        self._reader = reader
        self._words = words
        self._keepalive_s = keepalive_s
        self._on_left = on_left
        self._done = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        watch = asyncio.create_task(self._watch(receive))
        try:
            await self._answer(scope, receive, send)
        except OSError:
            pass  # the client went away while we were sending
        finally:
            watch.cancel()
            self._reader.close()
            if self._on_left is not None and not self._done:
                await self._on_left()

    async def _watch(self, receive: Receive) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        self._reader.leave()

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        raise NotImplementedError


class StreamReply(_Reply):
    """The entries as they come, with a first line for a message that waits behind `position` others."""

    def __init__(
        self,
        reader: Reader,
        words: Words,
        form: Form,
        headers: Mapping[str, str],
        keepalive_s: float,
        *,
        position: int = 0,
        on_left: Callable[[], Awaitable[object]] | None = None,
    ) -> None:
        streaming = {
            "Content-Type": f"{form.value}; charset=utf-8",
            "Cache-Control": "no-cache, no-transform",
            "X-Accel-Buffering": "no",
        }
        super().__init__(reader, words, {**headers, **streaming}, keepalive_s, on_left=on_left)
        self._form = form
        self._position = position

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        if self._position:
            await self._send(send, self._body(Entry(0, 0, encode_line(Queued(self._position)) + b"\n")))
        while not self._done and not self._reader.left:
            try:
                entry = await self._reader.next(self._keepalive_s)
            except ConvoqError as error:
                nowhere = Metadata("", "")
                self._done = True
                text = self._words.text(error.code, error.message)
                lost = [Error(text, error.code, nowhere), End(nowhere)]
                await self._send(send, self._body(number(lost, self._reader.seq)))
                break
            if entry is not None:
                self._done = entry.end is not None
                await self._send(send, self._body(self._words.entry(entry)))
            elif not self._reader.left:
                await self._send(send, SSE_KEEPALIVE if self._form is Form.SSE else NDJSON_KEEPALIVE)
        if not self._reader.left:
            await send({"type": "http.response.body", "body": b"", "more_body": False})

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


class JsonReply(_Reply):
    """The one answer of a client that does not read a stream: what a node of the workflow responds, as soon as it does,
    else JSON when the execution has ended."""

    def __init__(
        self,
        reader: Reader,
        words: Words,
        headers: Mapping[str, str],
        keepalive_s: float,
        *,
        files: BinaryStore,
        on_left: Callable[[], Awaitable[object]] | None = None,
    ) -> None:
        super().__init__(reader, words, headers, keepalive_s, on_left=on_left)
        self._files = files

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = dict(self.headers)
        while not self._reader.left:
            try:
                entry = await self._reader.next(self._keepalive_s)
            except ConvoqError as error:
                self._done = True
                body = self._words.error(error.as_dict())
                return await JSONResponse(body, error.status, headers)(scope, receive, send)
            if entry is not None and (found := responded(entry)) is not None:
                self._done = True
                self._reader.close()
                return await (await self._made(found, headers))(scope, receive, send)
            if entry is not None and entry.end is not None:
                self._done = True
                ended = entry.end
                if ended.error is None:
                    return await JSONResponse(ended.reply, 200, headers)(scope, receive, send)
                body = self._words.error(ended.error)
                return await JSONResponse(body, ended.http_status, headers)(scope, receive, send)

    async def _made(self, found: NodeResponse, headers: Mapping[str, str]) -> Response:
        try:
            body = await self._files.get(Binary(found.file, "")) if found.file else found.body.encode()
        except ConvoqError as error:
            return JSONResponse(self._words.error(error.as_dict()), error.status, headers)
        own = {**found.headers, **headers, **GUARDS}
        return Response(None if found.status in BODILESS else body, found.status, own)


def responded(entry: Entry) -> NodeResponse | None:
    """What a node of the workflow responds in this entry."""
    if RESPONSE_LINE not in entry.lines:
        return None
    lines = (decode_line(line) for line in entry.lines.splitlines() if line.startswith(RESPONSE_LINE))
    return next((line for line in lines if isinstance(line, NodeResponse)), None)
