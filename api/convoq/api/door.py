"""Who gets as far as a request: limits on heads, bodies, time and connections, before any other code of ours runs.

uvicorn has none of them for its fast parser: a head may be endless, half a body is held as long as its sender likes,
and a connection that sends nothing stays for ever.
"""

from __future__ import annotations

import asyncio
import json
import re
import resource
from collections import Counter
from typing import Any, ClassVar, cast

import structlog
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from convoq.api.bodies import FREE_BYTES, IN_SCOPE, Bodies, Body
from convoq.errors import BadRequest, ConvoqError, HeadTooLarge, RequestTimeout, Unavailable
from convoq.redis import RETRY_AFTER_S
from convoq.settings import Settings

log = structlog.get_logger()

LINGER_S = 1.0
"""How long a connection stays open after a refusal: closed at once, it would take the answer with it."""
TELL_S = 10.0
"""Refusals are counted, and told of this often: an attack must not fill the log."""
UNWANTED = 16
"""How many times `max_body_bytes` a client may send in vain before the connection is closed on it."""
OFFER = re.compile(rb"\r\n[Uu](pgrade|PGRADE)[ \t]*:")
OTHER_FILES = 100
"""What a process opens besides its clients' connections."""


class Door(HttpToolsProtocol):
    """One connection. `waiting` are those of the process that have no whole request, the longest silent one first: when
    there are too many connections, that one goes."""

    settings: ClassVar[Settings]
    most: ClassVar[int]
    bodies: ClassVar[Bodies]
    waiting: ClassVar[dict[Door, None]]
    refusals: ClassVar[Counter[str]]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._no_progress = 0
        self._body: Body | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._refusal: ConvoqError | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > self.most and not self._let_one_go():
            message = f"{self.most} connections are open already (CONVOQ_MAX_CONNECTIONS)"
            return self._refuse(Unavailable(message, retry_after=RETRY_AFTER_S))
        self.waiting[self] = None
        self._start_timer(self.settings.head_timeout_s)

    def connection_lost(self, exc: Exception | None) -> None:
        self.waiting.pop(self, None)
        self._stop_timer()
        for cycle, _ in self.pipeline:  # nobody will begin with them
            cast("dict[str, Any]", cycle.scope)[IN_SCOPE].release()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._refusal is not None:
            return
        self._no_progress += len(data)
        super().data_received(data if self._in_body else _without_offer(data))
        if self._no_progress > self.settings.max_header_bytes:
            self._refuse(self._too_large())
        elif self._timer is None and self in self.waiting:
            self._start_timer(self.settings.body_timeout_s if self._in_body else self.settings.head_timeout_s)

    @property
    def _in_body(self) -> bool:
        return self._body is not None and not self._body.whole

    # --- what the parser finds -----------------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._body = None
        self.waiting.pop(self, None)
        self.waiting[self] = None

    def on_headers_complete(self) -> None:
        if len(self.url) + sum(len(name) + len(value) for name, value in self.headers) > self.settings.max_header_bytes:
            return self._refuse(self._too_large())
        if self.bodies.full and self._declared() > FREE_BYTES:
            return self._refuse(self._no_room())
        self._no_progress = 0
        self._stop_timer()
        self._body = cast("dict[str, Any]", self.scope)[IN_SCOPE] = Body(self.bodies)
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._no_progress = 0
        if self._refusal is not None or self._body is None:
            return
        if not self._body.wanted:
            if not self._body.drop(len(body)):
                self.cycle.message_event.set()
        elif self._body.take(len(body)):
            super().on_body(body)
        else:
            self._refuse(self._no_room())

    def on_message_complete(self) -> None:
        self._no_progress = 0
        if self._refusal is not None or self._body is None:
            return
        self._stop_timer()
        self.waiting.pop(self, None)
        self._body.whole = True
        super().on_message_complete()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if not self.transport.is_closing() and self.cycle.response_complete:
            self.waiting[self] = None

    # --- refusing ------------------------------------------------------------------------------------------------

    def send_400_response(self, msg: str) -> None:
        self._refuse(BadRequest(msg))

    def _too_large(self) -> ConvoqError:
        return HeadTooLarge(f"the head is larger than {self.settings.max_header_bytes} bytes (CONVOQ_MAX_HEADER_BYTES)")

    def _no_room(self) -> ConvoqError:
        message = f"the bodies of requests hold {self.bodies.most} bytes already (CONVOQ_MAX_BODIES_BYTES)"
        return Unavailable(message, retry_after=RETRY_AFTER_S)

    def _declared(self) -> int:
        return next((int(value) for name, value in self.headers if name == b"content-length"), 0)

    def _late(self) -> None:
        self._timer = None
        if self._in_body:
            what, seconds = "body", self.settings.body_timeout_s
        elif self._no_progress:
            what, seconds = "head", self.settings.head_timeout_s
        else:
            return self.transport.close()
        self._refuse(RequestTimeout(f"the {what} was not there within {seconds:g} s (CONVOQ_{what.upper()}_TIMEOUT_S)"))

    def _let_one_go(self) -> bool:
        """Make room: whether there was one to whom nothing is owed."""
        for door in self.waiting:
            self._count("dropped")
            del self.waiting[door]
            door.transport.close()
            return True
        return False

    def _refuse(self, error: ConvoqError) -> None:
        """Answer in the application's place, and hear no more."""
        if self._refusal is not None or self.transport.is_closing():
            return
        self._refusal = error
        self._count(error.code)
        self.waiting.pop(self, None)
        self._stop_timer()
        cycle = self.cycle
        if cycle is not None and not cycle.response_complete:
            if cycle.response_started:
                return self.transport.close()
            cycle.disconnected = True
            cycle.message_event.set()
        self.transport.pause_reading()
        self.transport.write(_answer(error, dict(self.headers or ()).get(b"origin")))
        self.transport.write_eof()
        self._timer = self.loop.call_later(LINGER_S, self.transport.close)

    def _count(self, what: str) -> None:
        if not self.refusals:
            self.loop.call_later(TELL_S, self._tell)
        self.refusals[what] += 1

    def _tell(self) -> None:
        log.warning("connections refused", connections=len(self.connections), **self.refusals)
        self.refusals.clear()

    def _start_timer(self, seconds: float) -> None:
        self._timer = self.loop.call_later(seconds, self._late)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def door(settings: Settings) -> type[Door]:
    """The protocol class of a process with these settings, which may open as many files as it may have connections."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = settings.max_connections + OTHER_FILES
    allowed = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < allowed:
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
    most = max(1, allowed - OTHER_FILES)
    if most < settings.max_connections:
        log.warning("fewer connections than CONVOQ_MAX_CONNECTIONS: this process may not open more files", most=most)
    of_process = {
        "settings": settings,
        "most": most,
        "bodies": Bodies(settings.max_bodies_bytes, UNWANTED * settings.max_body_bytes),
        "waiting": {},
        "refusals": Counter(),
    }
    return type("ProcessDoor", (Door,), of_process)


def _without_offer(data: bytes) -> bytes:
    """The head without its offer to speak another protocol, with which the parser would take no body: Java's HTTP
    client offers h2c each time."""
    if b"pgrade" not in data and b"PGRADE" not in data:
        return data
    head, end, rest = data.partition(b"\r\n\r\n")
    return OFFER.sub(rb"\r\nx\1:", head) + end + rest


def _answer(error: ConvoqError, origin: bytes | None) -> bytes:
    body = json.dumps(error.as_dict()).encode()
    lines = [
        STATUS_LINE[error.status].rstrip(),
        b"content-type: application/json",
        b"content-length: %d" % len(body),
        b"connection: close",
    ]
    if "retry_after" in error.details:
        lines.append(b"retry-after: %d" % RETRY_AFTER_S)
    if origin is not None:
        lines += [b"access-control-allow-origin: " + origin, b"vary: Origin"]
    return b"\r\n".join([*lines, b"", body])
