"""Respond to Webhook: answers the request of a chat while the execution goes on."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import Field, ValidationInfo, field_validator

from convoq.contract.context import RunContext
from convoq.contract.definition import Node
from convoq.contract.items import Binary, Item
from convoq.contract.node import MainNode
from convoq.contract.parameters import Parameters, as_written, parameter
from convoq.contract.response import HttpResponse
from convoq.errors import BadParameter
from convoq.expressions import js
from convoq.expressions.field_types import json_text
from convoq.nodes import fields
from convoq.nodes.flow.tokens import signed
from convoq.nodes.raw_json import parsed, raw_json

RespondWith = Literal["firstIncomingItem", "allIncomingItems", "json", "jwt", "text", "binary", "redirect", "noData"]
JSON_TYPE, TEXT_TYPE = "application/json", "text/html"
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9a-z-]+")
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
_OF_THE_SERVER = frozenset(
    ("connection", "content-length", "date", "keep-alive", "server", "transfer-encoding", "upgrade")
)
"""What the server itself has to say; a workflow's word would break the answer."""


class Header(Parameters):
    name: str = ""
    value: str = ""


class Headers(Parameters):
    entries: tuple[Header, ...] = ()


class Options(Parameters):
    response_code: int | None = Field(None, ge=200, le=599)
    response_headers: Headers = Headers()
    response_key: str = ""
    enable_streaming: bool = True
    enable_response_output: bool = False


class RespondParameters(Parameters):
    respond_with: RespondWith = "firstIncomingItem"
    response_body: Any = parameter(None, when={"respond_with": ["json", "text"]})
    payload: Any = parameter(None, when={"respond_with": "jwt"})
    redirect_url: str = parameter("", when={"respond_with": "redirect"}, alias="redirectURL")
    response_data_source: Literal["automatically", "set"] = parameter("automatically", when={"respond_with": "binary"})
    input_field_name: str = parameter("data", when={"respond_with": "binary"})
    options: Options = Options()

    @field_validator("response_body", mode="after")
    @classmethod
    def _is_json(cls, value: Any, info: ValidationInfo) -> Any:
        literal = as_written(info) and isinstance(value, str) and not value.startswith("=")
        if literal and info.data.get("respond_with") == "json":
            parsed(value)
        return value

    def headers(self) -> dict[str, str]:
        """Raises `BadParameter` for one that is none."""
        found = {}
        for header in self.options.response_headers.entries:
            name = header.name.strip().lower()
            if not name:
                continue
            if not _TOKEN.fullmatch(name) or _CONTROL.search(header.value) or not header.value.isascii():
                shown = f"{header.name[:100]!r}: {header.value[:100]!r}"
                raise BadParameter(f"{shown} is no HTTP header", parameter="responseHeaders")
            if name not in _OF_THE_SERVER:
                found[name] = header.value
        return found


@dataclass(frozen=True, slots=True)
class Answer:
    """What is told, and as what. `texts` are for who reads a stream, each a text of its own."""

    body: str = ""
    type: str = ""
    texts: tuple[str, ...] = ()
    file: Binary | None = None


class RespondToWebhookNode(MainNode[RespondParameters]):
    """Only the first answer of an execution goes to a client that waits for one; who reads a stream gets every text.
    Its items come out again, and on a second output, where it is asked for, what was answered."""

    type = "n8n-nodes-base.respondToWebhook"
    versions = (1, 1.5)
    parameters_class = RespondParameters
    credentials = ("jwtAuth",)

    def output_count(self, node: Node) -> int:
        options = node.parameters.get("options")
        asked = isinstance(options, dict) and options.get("enableResponseOutput") is True
        return 2 if node.type_version == 1.3 or (asked and node.type_version >= 1.4) else 1

    async def run(self, ctx: RunContext[RespondParameters]) -> list[list[Item]]:
        given = await ctx.parameters()
        answer = await _answer(ctx, given)
        headers = given.headers()
        if kind := headers.get("content-type", answer.type):
            bare = answer.file is None and "charset=" not in kind.lower()
            headers["content-type"] = f"{kind}; charset=utf-8" if bare else kind
        if given.respond_with == "redirect":
            headers["location"] = _location(given.redirect_url)
        status = given.options.response_code or (307 if given.respond_with == "redirect" else 200)
        response = HttpResponse(status, headers, answer.body, answer.file)
        texts = answer.texts if given.options.enable_streaming else ()
        if not await ctx.respond(response, texts):
            ctx.note("nobody waits for this answer, or it was given before: it went nowhere")
        passed = [Item(item.json, item.binary, index) for index, item in enumerate(ctx.items)]
        return [passed, [_shown(response)]] if self.output_count(ctx.node) == 2 else [passed]


def _shown(response: HttpResponse) -> Item:
    found = {"statusCode": response.status, "headers": dict(response.headers), "body": response.body}
    return Item({"response": found}, paired_item=0)


async def _answer(ctx: RunContext[RespondParameters], given: RespondParameters) -> Answer:
    kind = given.respond_with
    if kind == "firstIncomingItem":
        return _as_json(_under_key(given, ctx.items[0].json), ctx.items[0].json)
    if kind == "allIncomingItems":
        every = [item.json for item in ctx.items]
        return _as_json(_under_key(given, every), *every)
    if kind == "json":
        body = await _json(ctx, "responseBody")
        return _as_json(body, body)
    if kind == "jwt":
        payload = await _json(ctx, "payload")
        token = {"token": signed(payload, await ctx.needed_credential("jwtAuth"))}
        return _as_json(token, token)
    if kind == "text":
        text = json_text(body) if isinstance(body := given.response_body, dict | list) else js.text(body)
        return Answer(text, TEXT_TYPE, (text,))
    if kind == "binary":
        file = _file(ctx.items[0], given)
        return Answer(type=file.mime_type or "application/octet-stream", file=file)
    return Answer()


def _as_json(body: Any, *texts: Any) -> Answer:
    shown = tuple(text if isinstance(text, str) else json_text(text) for text in texts)
    return Answer(json_text(body), JSON_TYPE, shown)


def _under_key(given: RespondParameters, value: Any) -> Any:
    if not given.options.response_key:
        return value
    found: dict[str, Any] = {}
    fields.put(found, given.options.response_key, value)
    return found


async def _json(ctx: RunContext[Any], name: str) -> Any:
    written = ctx.node.parameters.get(name)
    try:
        return {} if written is None else await raw_json(ctx, written)
    except ValueError as error:
        raise BadParameter(f"parameter {name!r}: {error}", parameter=name) from None


def _file(item: Item, given: RespondParameters) -> Binary:
    files: Mapping[str, Binary] = item.binary or {}
    name = given.input_field_name if given.response_data_source == "set" else next(iter(files), "")
    if name not in files:
        held = f"only {', '.join(map(repr, files))}" if files else "none"
        raise BadParameter(f"there is no file {name!r} in the first item, {held}", parameter="inputFieldName")
    return files[name]


def _location(url: str) -> str:
    url = url.strip()
    if not re.match(r"https?://|/(?!/)", url, re.IGNORECASE) or _CONTROL.search(url) or not url.isascii():
        raise BadParameter(f"{url[:200]!r} is no address to redirect to", parameter="redirectURL")
    return url
