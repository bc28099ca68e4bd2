"""Stored credentials over REST: added, listed, removed, never read."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.requests import Request as HttpRequest
from starlette.responses import JSONResponse, Response

from convoq.api.rest import check_key, json_body
from convoq.credentials.vault import CredentialRecord, Vault
from convoq.errors import BadBody


class _Given(BaseModel):
    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)

    name: str = Field(min_length=1, max_length=200)
    type: str = Field(min_length=1, max_length=200)
    data: dict[str, Any] = Field(min_length=1)


async def list_credentials(http: HttpRequest) -> Response:
    state = check_key(http)
    return JSONResponse({"data": [_shown(one) for one in await Vault(state.pipe, state.settings).list()]})


async def add_credential(http: HttpRequest) -> Response:
    """`{"name", "type", "data": {field: value}}`, as n8n's own API takes it; replaces one of the same name and type."""
    state = check_key(http)
    try:
        given = _Given.model_validate_json(await json_body(http))
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise BadBody(f"credential: {where}: {first['msg']}") from None
    record = await Vault(state.pipe, state.settings).add(given.name, given.type, given.data)
    return JSONResponse(_shown(record), 201)


async def remove_credential(http: HttpRequest) -> Response:
    state = check_key(http)
    await Vault(state.pipe, state.settings).remove(http.path_params["id"])
    return Response(status_code=204)


def _shown(record: CredentialRecord) -> dict[str, Any]:
    return {"id": record.id, "name": record.name, "type": record.type, "created": record.created}
