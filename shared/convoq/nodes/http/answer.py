"""What becomes of a response: items of its JSON, its text, or a file."""

from __future__ import annotations

import json
import re
from email.message import Message
from typing import Any, Final

from convoq.contract.context import Context
from convoq.contract.items import Item
from convoq.errors import NodeFailed, RequestFailed
from convoq.nodes.files import keep
from convoq.nodes.http.parameters import ResponseShape
from convoq.nodes.http.request import Request, Response
from convoq.nodes.http.send import where

_FILES: Final = re.compile(
    r"(?:image|audio|video|font)/|application/(?:octet-stream|pdf|zip|gzip|x-(?:tar|bzip2?|7z-compressed|cdf|rar.*)"
    r"|vnd\.(?:rar|ms-|amazon\.ebook|openxmlformats-officedocument|oasis\.opendocument).*|epub\+zip|msword|java-archive)"
)
_TEXTUAL: Final = ("image/svg+xml",)


def raise_for_status(request: Request, response: Response) -> None:
    """Raises `RequestFailed` unless the status is 2xx. `details["body"]` is what the answer said."""
    if 200 <= response.status < 300:
        return
    said = text_of(response)[:500].strip()
    reason = f"{response.status} {response.reason}".strip() + (f": {said}" if said else "")
    raise RequestFailed(
        f"{where(request.method, response.url)} was answered {reason}{_ADVICE.get(response.status, '')}",
        http_status=response.status,
        cause="ERR_BAD_REQUEST" if response.status < 500 else "ERR_BAD_RESPONSE",
    )


_ADVICE: Final = {
    401: " (check the node's credential)",
    403: " (check what the node's credential may do)",
    429: " (too many requests: the node's batching option slows them down)",
}


async def items_of(ctx: Context[Any], item_index: int, response: Response, shape: ResponseShape) -> list[Item]:
    """The items that a response makes, as `shape` has it. Raises `NodeFailed` for JSON that is none."""
    chosen = shape.response_format if shape.response_format != "autodetect" else _detected(response)
    about = {
        "headers": dict(response.headers),
        "statusCode": response.status,
        "statusMessage": response.reason,
    }
    if chosen == "file":
        file = await keep(ctx, response.body, mime_type=response.content_type, file_name=_file_name(response))
        fields = about if shape.full_response else ctx.items[item_index].json
        return [Item(fields, {shape.output_property_name: file}, item_index)]
    if chosen == "text":
        text = text_of(response)
        fields = {shape.output_property_name: text} if text or shape.full_response else {}
        return [Item({**fields, **about} if shape.full_response else fields, None, item_index)]
    body = json_of(response)
    if shape.full_response:
        return [Item({"body": {} if body is None else body, **about}, None, item_index)]
    if isinstance(body, str):
        raise NodeFailed("the answer is text, not JSON; set the response format to Text")
    return [Item(_object(entry), None, item_index) for entry in (body if isinstance(body, list) else [body])]


def text_of(response: Response) -> str:
    charset = response.charset or "utf-8"
    try:
        return response.body.decode(charset)
    except (UnicodeDecodeError, LookupError):
        return response.body.decode("utf-8", "replace")


def json_of(response: Response) -> Any:
    """None for an empty body. Raises `NodeFailed`."""
    text = text_of(response).lstrip("\ufeff").strip()
    try:
        return json.loads(text) if text else None
    except (ValueError, RecursionError) as error:
        raise NodeFailed(f"the answer of {response.url.host} is not JSON: {error}") from None


def read(response: Response) -> Any:
    """The body as expressions see it: JSON where it says so and is it, else text."""
    if _detected(response) == "json":
        try:
            return json_of(response)
        except NodeFailed:
            pass
    return text_of(response)


def _detected(response: Response) -> str:
    kind = response.content_type
    if re.search(r"[/+]json\b|[/-]json$", kind):
        return "json"
    return "file" if _FILES.match(kind) and kind not in _TEXTUAL else "text"


def _object(value: Any) -> dict[str, Any]:
    """An item's JSON is an object: null is an empty one, anything else lies under `data`."""
    if value is None:
        return {}
    return value if isinstance(value, dict) else {"data": value}


def _file_name(response: Response) -> str:
    """As the header has it, or else the last part of the path, where that looks like a file's name."""
    header = Message()
    header["content-disposition"] = str(response.headers.get("content-disposition", ""))
    name = header.get_filename() or ""
    if not name and "." in (last := response.url.name):
        name = last
    return re.sub(r"[\x00-\x1f\x7f]", "", name.replace("\\", "/").rpartition("/")[2])[:200]
