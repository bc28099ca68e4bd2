"""The sessions of a workflow over REST: list, read or export, delete one or all of a user's."""

from __future__ import annotations

from collections.abc import Sequence

from starlette.requests import Request as HttpRequest
from starlette.responses import JSONResponse, Response

from convoq.api.rest import check_key
from convoq.errors import BadRequest
from convoq.store.sessions import Deleted

PAGE_MAX = 1000


async def list_sessions(http: HttpRequest) -> Response:
    """`{"data": […], "total": n}`, the latest activity first; `offset` and `limit` (100, at most 1000) page through."""
    state = check_key(http)
    workflow_id = http.path_params["id"]
    offset, limit = _number(http, "offset", 0, 0, 1 << 31), _number(http, "limit", 100, 1, PAGE_MAX)
    found, total = await state.sessions.page(workflow_id, offset=offset, limit=limit)
    return JSONResponse({"data": [info.as_dict() for info in found], "total": total})


async def get_session(http: HttpRequest) -> Response:
    """All that is kept of it. With `?download` as a file."""
    state = check_key(http)
    exported = await state.sessions.export(http.path_params["id"], http.path_params["session"])
    headers = (
        {"Content-Disposition": 'attachment; filename="session.json"'} if "download" in http.query_params else None
    )
    return JSONResponse(exported, headers=headers)


async def delete_session(http: HttpRequest) -> Response:
    state = check_key(http)
    session_id = http.path_params["session"]
    return _told([await state.sessions.delete(http.path_params["id"], session_id)])


async def delete_sessions(http: HttpRequest) -> Response:
    """Every session whose id begins with `prefix`: all of one user, where session ids begin with the user's."""
    state = check_key(http)
    workflow_id, prefix = http.path_params["id"], http.query_params.get("prefix", "")
    if not prefix:
        raise BadRequest("prefix is missing: say what the ids of the sessions to be deleted begin with")
    names = await state.sessions.matching(workflow_id, prefix)
    return _told([await state.sessions.delete(workflow_id, name) for name in names])


def _told(done: Sequence[Deleted]) -> Response:
    """207 where something was left on another server: the caller must know."""
    left = [f"session {deleted.id!r}: {line}" for deleted in done for line in deleted.not_cleared]
    told = {"deleted": [deleted.id for deleted in done], "keys": sum(deleted.keys for deleted in done)}
    return JSONResponse({**told, "notCleared": left}, 207 if left else 200)


def _number(http: HttpRequest, name: str, default: int, least: int, most: int) -> int:
    text = http.query_params.get(name, str(default))
    if not text.isascii() or not text.isdigit() or not least <= int(text) <= most:
        raise BadRequest(f"{name}={text[:40]!r}: expected a number from {least} to {most}")
    return int(text)
