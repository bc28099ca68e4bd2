"""The bodies that a request of the node may have."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from aiohttp import FormData

from convoq.contract.context import Context
from convoq.errors import BadParameter
from convoq.expressions import js
from convoq.nodes.files import file_of
from convoq.nodes.http.parameters import Entries, HttpRequestParameters
from convoq.nodes.http.request import encoded

Body = tuple[bytes, str]
"""The bytes, and the content type that goes with them where the headers name none (empty: none)."""


async def body_of(
    ctx: Context[Any], item_index: int, parameters: HttpRequestParameters, more: Mapping[str, Any]
) -> Body | None:
    """`more` are fields that go into it besides: of a credential, of a page. None where there is no body.

    Raises `BadParameter` for JSON that is none, `NodeFailed` for a file that the item does not have.
    """
    if not parameters.send_body:
        return json_body(dict(more)) if more else None
    match parameters.content_type:
        case "binaryData":
            file = file_of(ctx, item_index, parameters.input_data_field_name)
            return await ctx.services.binaries.get(file), file.mime_type
        case "raw":
            return _text(parameters.body).encode(), parameters.raw_content_type
        case "multipart-form-data":
            return await _multipart(ctx, item_index, parameters, more)
        case "form-urlencoded":
            if parameters.specify_body != "keypair":
                return _text(parameters.body).encode(), FORM
            fields = {**keypairs(parameters.body_parameters), **more}
            return encoded(flat(fields)).encode(), FORM
    if parameters.specify_body == "json":
        given = json_value(parameters.json_body, "jsonBody")
        return json_body({**given, **more} if isinstance(given, dict) else given)
    return json_body({**keypairs(parameters.body_parameters), **more})


FORM = "application/x-www-form-urlencoded"


def json_body(value: Any) -> Body:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode(), "application/json"


async def _multipart(
    ctx: Context[Any], item_index: int, parameters: HttpRequestParameters, more: Mapping[str, Any]
) -> Body:
    form = FormData(default_to_multipart=True)
    for entry in parameters.body_parameters.parameters:
        if entry.parameter_type == "formBinaryData":
            file = file_of(ctx, item_index, entry.input_data_field_name)
            data = await ctx.services.binaries.get(file)
            form.add_field(entry.name, data, filename=file.file_name or entry.name, content_type=file.mime_type)
        elif entry.name:
            form.add_field(entry.name, _text(entry.value))
    for name, value in more.items():
        form.add_field(name, _text(value))
    payload = form()
    return await payload.as_bytes(), payload.content_type


def keypairs(entries: Entries) -> dict[str, Any]:
    """As a JSON object; of a name that comes twice the last counts."""
    return {entry.name: entry.value for entry in entries.parameters if entry.name}


def json_value(given: Any, parameter: str) -> Any:
    """A parameter that holds JSON as text, or already was an object. Raises `BadParameter`."""
    if not isinstance(given, str):
        return given
    try:
        return json.loads(given, strict=False) if given.strip() else {}
    except (ValueError, RecursionError) as error:
        raise BadParameter(
            f"parameter {parameter!r} is not JSON: {error} (got {given[:200]!r})", parameter=parameter
        ) from None


def flat(fields: Mapping[str, Any], arrays: str = "indices") -> list[tuple[str, str]]:
    """Nested values as names: `a[b]=1`, `a[0]=1` (`indices`), `a[]=1` (`brackets`) or `a=1` (`repeat`)."""
    return [pair for name, value in fields.items() for pair in _flat(name, value, arrays)]


def _flat(name: str, value: Any, arrays: str) -> Iterable[tuple[str, str]]:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _flat(f"{name}[{key}]", inner, arrays)
    elif isinstance(value, list):
        for at, inner in enumerate(value):
            key = {"indices": f"{name}[{at}]", "brackets": f"{name}[]"}.get(arrays, name)
            yield from _flat(key, inner, arrays)
    else:
        yield name, _text(value)


def _text(value: Any) -> str:
    if isinstance(value, dict | list):
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return js.text(value)
