"""An execution as its client sees it: read its stream again, stop it."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from uuid import UUID

from starlette.requests import Request as HttpRequest
from starlette.responses import JSONResponse, Response

from convoq import keys
from convoq.api.reply import BY_ACCEPT, Form, StreamReply
from convoq.api.rest import has_key
from convoq.api.state import State, state_of
from convoq.api.words import words_of
from convoq.delivery.stopping import ENDED
from convoq.errors import BadRequest, Gone, Unauthorized, UnknownExecution

ANSWER_S = 5.0


async def resume(http: HttpRequest) -> Response:
    """The stream from after chunk `after` (or `Last-Event-ID`; -1, the default, is its start).

    204 when there is nothing more to come, 410 when the stream is not kept any more.
    """
    state = state_of(http)
    execution_id = http.path_params["id"]
    record = await _record(http, state, execution_id)
    status, seq = record.status, record.seq
    first = _after(http) + 1
    if first > seq:
        raise BadRequest(f"after={first - 1}: execution {execution_id} has only {seq} chunks so far")
    if status in ENDED:
        if first >= seq:
            return Response(status_code=204)
        if not await state.pipe.command("EXISTS", keys.stream_log(execution_id)):
            raise Gone(f"the stream of execution {execution_id} is not kept any more")
    words = await words_of(state, execution_id, record.workflow, record.trigger)
    reader = state.hub.reader(execution_id, first)
    await reader.join_late()
    accepts = [part.partition(";")[0].strip() for part in http.headers.get("accept", "").split(",")]
    form = next((BY_ACCEPT[name] for name in accepts if name in BY_ACCEPT), Form.NDJSON)
    if "last-event-id" in http.headers:
        form = Form.SSE
    return StreamReply(reader, words, Form.NDJSON if form is Form.JSON else form, {}, state.settings.keepalive_s)


async def stop(http: HttpRequest) -> Response:
    """Stop an execution, waiting or running; answered when it has ended. Harmless when repeated."""
    state = state_of(http)
    execution_id = http.path_params["id"]
    await _record(http, state, execution_id)
    return JSONResponse({"executionId": execution_id, "status": await state.stopper.stop(execution_id)})


async def end_in_the_way(state: State, execution_id: str) -> None:
    """A newer message displaced it while it waited, or interrupts it. Should this process die now, others see to it."""
    status, worker = await state.pipe.command("HMGET", keys.execution(execution_id), "status", "worker")
    if status == b"running":
        await state.stopper.ask(execution_id, worker.decode(), "interrupted by a newer message")
    else:
        await state.takeover.settle(execution_id)


@dataclass(frozen=True, slots=True)
class _Record:
    """`seq` is the number of chunks so far; `workflow` is an id, `trigger` a node's name."""

    status: str
    seq: int
    workflow: str
    trigger: str


async def _record(http: HttpRequest, state: State, execution_id: str) -> _Record:
    """For who has the stream's token or the API key."""
    try:
        UUID(execution_id)
    except ValueError:
        raise UnknownExecution(f"{execution_id[:60]!r} is not an execution id") from None
    fields = ("status", "seq", "reader", "workflow", "trigger")
    asked = state.pipe.command("HMGET", keys.execution(execution_id), *fields)
    status, seq, token, workflow, trigger = await state.pipe.within(ANSWER_S, asked)
    if status is None:
        raise Gone(f"execution {execution_id} is not kept any more, or never was")
    given = http.query_params.get("token") or http.headers.get("x-stream-token") or ""
    if not secrets.compare_digest(given.encode(), token) and not has_key(http, state):
        raise Unauthorized("a valid stream token is needed: the first answer had it as X-Stream-Token")
    return _Record(status.decode(), int(seq), workflow.decode(), (trigger or b"").decode())


def _after(http: HttpRequest) -> int:
    text = http.query_params.get("after") or http.headers.get("last-event-id") or "-1"
    try:
        after = int(text)
    except ValueError:
        after = -2
    if not -1 <= after < 1 << 53:
        raise BadRequest(f"after={text[:40]!r}: expected the number of the last chunk that was read, or -1")
    return after
