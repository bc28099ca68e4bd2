"""From the node's parameters to a request, for one item."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from convoq.contract.context import Context
from convoq.errors import BadParameter
from convoq.expressions import js
from convoq.nodes.http.auth import auth_of
from convoq.nodes.http.body import Body, body_of, flat, json_value, keypairs
from convoq.nodes.http.parameters import HttpRequestParameters
from convoq.nodes.http.request import Auth, Pairs, Request

USER_AGENT: Final = "convoq"
_ANYTHING: Final = (
    "application/json,text/html,application/xhtml+xml,application/xml,text/*;q=0.9, image/*;q=0.8, */*;q=0.7"
)
_ACCEPT: Final = {"json": "application/json,text/*;q=0.99"}


@dataclass(frozen=True, slots=True)
class More:
    """What a page changes of the request."""

    url: str = ""
    query: Mapping[str, Any] = field(default_factory=dict)
    headers: Mapping[str, Any] = field(default_factory=dict)
    body: Mapping[str, Any] = field(default_factory=dict)


async def request_of(
    ctx: Context[Any], item_index: int, parameters: HttpRequestParameters, version: float, more: More = More()
) -> Request:
    """Raises `NodeFailed`: a bad parameter, a credential or a file that is missing."""
    url = more.url or parameters.url
    if not url.strip():
        raise BadParameter("parameter 'url' is required", parameter="url")
    options = parameters.options
    kind = parameters.credential_type
    auth = await auth_of(ctx, kind) if kind else Auth()
    body = await body_of(ctx, item_index, parameters, {**more.body, **auth.body})
    return Request(
        method=parameters.method,
        url=url,
        query=_query(parameters, more.query),
        headers=_headers(parameters, body, more.headers),
        body=None if body is None else body[0],
        auth=auth,
        timeout_s=options.timeout / 1000,
        max_redirects=(options.redirect.redirect.max_redirects if options.redirect else 21)
        if parameters.follows(version)
        else 0,
        verify=not options.allow_unauthorized_certs,
        proxy=options.proxy.strip() or None,
    )


def _query(parameters: HttpRequestParameters, more: Mapping[str, Any]) -> Pairs:
    """What a page sets takes the place of what the node has under the same name."""
    given: list[tuple[str, Any]] = []
    if parameters.send_query:
        if parameters.specify_query == "json":
            given = list(_object(parameters.json_query, "jsonQuery").items())
        else:
            given = [(entry.name, entry.value) for entry in parameters.query_parameters.parameters if entry.name]
    arrays = parameters.options.query_parameter_arrays
    kept = [(name, value) for name, value in given if name not in more]
    return [pair for name, value in (*kept, *more.items()) for pair in flat({name: value}, arrays)]


def _headers(parameters: HttpRequestParameters, body: Body | None, more: Mapping[str, Any]) -> dict[str, str]:
    given: Mapping[str, Any] = {}
    if parameters.send_headers:
        given = (
            _object(parameters.json_headers, "jsonHeaders")
            if parameters.specify_headers == "json"
            else keypairs(parameters.header_parameters)
        )
    headers = {name.strip().lower(): _header(name, value) for name, value in (*given.items(), *more.items())}
    headers.setdefault("accept", _ACCEPT.get(parameters.options.response.response.response_format, _ANYTHING))
    headers.setdefault("user-agent", USER_AGENT)
    if body is not None and body[1]:
        if parameters.content_type == "multipart-form-data":
            headers["content-type"] = body[1]  # no other one tells where its parts end
        else:
            headers.setdefault("content-type", body[1])
    return headers


def _header(name: str, value: Any) -> str:
    text = (json.dumps(value) if isinstance(value, dict | list) else js.text(value)).strip()
    if any(ord(character) < 32 for character in text.replace("\t", "")) or not name.strip().isascii():
        raise BadParameter(f"header {name[:100]!r} has characters that no header can have", parameter="sendHeaders")
    return text


def _object(given: Any, parameter: str) -> Mapping[str, Any]:
    found = json_value(given, parameter)
    if not isinstance(found, Mapping):
        raise BadParameter(f"parameter {parameter!r} should be a JSON object", parameter=parameter)
    return found
