"""The management API, /api/v1: workflows and executions, behind an API key when one is set."""

from __future__ import annotations

import json
import secrets
from typing import Any

from starlette.requests import Request as HttpRequest
from starlette.responses import JSONResponse, Response

from convoq import keys
from convoq.api.state import State, state_of
from convoq.engine.reading import parse_workflow_text
from convoq.engine.report import report_on
from convoq.errors import BadBody, BodyTooLarge, NotFound, Unauthorized, UnknownExecution
from convoq.nodes.registry import REGISTRY
from convoq.store.workflows import WorkflowRecord

WORKFLOW_MAX_BYTES = 16 << 20
NUMBERS = ("created", "started", "ended", "attempt")


def has_key(http: HttpRequest, state: State) -> bool:
    """Whether the API key is set and came along: as `X-API-Key`, n8n's `X-N8N-API-KEY` or a bearer token."""
    if state.settings.api_key is None:
        return False
    bearer = http.headers.get("authorization", "").removeprefix("Bearer ")
    given = http.headers.get("x-api-key") or http.headers.get("x-n8n-api-key") or bearer
    return secrets.compare_digest(given.encode("latin-1"), state.settings.api_key.get_secret_value().encode())


def check_key(http: HttpRequest) -> State:
    """The state, for those who may."""
    state = state_of(http)
    if state.settings.api_key is not None and not has_key(http, state):
        raise Unauthorized("a valid API key is needed: send it as X-API-Key")
    return state


async def json_body(http: HttpRequest) -> bytes:
    """Raises `BadBody` for another type, `BodyTooLarge`."""
    # Only a type that needs a preflight: a page of somebody else's must not post here through its visitor's browser.
    if http.headers.get("content-type", "").partition(";")[0].strip() != "application/json":
        raise BadBody("send it as application/json")
    body = bytearray()
    async for part in http.stream():
        body += part
        if len(body) > WORKFLOW_MAX_BYTES:
            raise BodyTooLarge(f"the body is larger than {WORKFLOW_MAX_BYTES} bytes")
    return bytes(body)


async def list_workflows(http: HttpRequest) -> Response:
    state = check_key(http)
    return JSONResponse({"data": [_shown(record) for record in await state.store.list()]})


async def get_workflow(http: HttpRequest) -> Response:
    state = check_key(http)
    workflow = await state.store.get(http.path_params["id"])
    if workflow is None:
        raise NotFound(f"no workflow with id {http.path_params['id']!r}")
    return JSONResponse({**workflow.definition, "id": workflow.id, "active": workflow.active})


async def import_workflow(http: HttpRequest) -> Response:
    """Store one workflow (n8n's JSON), new or in place of the one with its id; the answer says what it is fit for.

    With `?strict=true` one with any fault is refused, with all of them.
    """
    state = check_key(http)
    strict = http.query_params.get("strict") == "true"
    workflow = parse_workflow_text(await json_body(http), source="request body", registry=REGISTRY, strict=strict)
    record = await state.store.save(workflow)
    report = await report_on(workflow, state.services.credential)
    return JSONResponse({**_shown(record), "warnings": list(report.warnings), "report": report.as_dict()}, 201)


async def get_execution(http: HttpRequest) -> Response:
    """What became of an execution, with the run data of its nodes once it has ended."""
    state = check_key(http)
    execution_id = http.path_params["id"]
    pairs = await state.pipe.command("HGETALL", keys.execution(execution_id))
    if not pairs:
        raise UnknownExecution(f"no execution {execution_id!r}: it never was, or its record has expired")
    record = {key.decode(): value.decode() for key, value in zip(pairs[::2], pairs[1::2], strict=True)}
    data = await state.pipe.command("GET", keys.run_data(execution_id))
    shown: dict[str, Any] = {key: record.get(key) for key in ("workflow", "session", "status", "worker")}
    shown |= {key: int(record[key]) for key in NUMBERS if key in record}
    shown["error"] = json.loads(record.get("error", "null"))
    return JSONResponse({"id": execution_id, **shown, "data": None if data is None else json.loads(data)})


def _shown(record: WorkflowRecord) -> dict[str, Any]:
    return {
        "id": record.id,
        "name": record.name,
        "active": record.active,
        "version": record.version,
        "updated": record.updated,
        "paths": list(record.paths),
    }
