"""A chat request's body, read and checked: everything in it is hostile until it left here."""

from __future__ import annotations

import json
import unicodedata
from dataclasses import dataclass
from typing import Any, Literal, cast

from starlette.requests import Request as HttpRequest

from convoq.engine.faults import json_fault
from convoq.errors import BadBody, BadRequest, BadSession, BodyTooLarge
from convoq.settings import Settings

Action = Literal["sendMessage", "loadPreviousSession"]
ACTIONS: tuple[Action, ...] = ("sendMessage", "loadPreviousSession")
SESSION_MAX_CHARS = 256
MAX_DIGITS = 20
DEFAULT_SESSION = "default"
NOT_CONTENT = {"action", "sessionId", "chatInput", "metadata"}


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """`item` is the Chat Trigger's output: the body itself, with `sessionId`, `action` and `chatInput` filled in."""

    action: Action
    session_id: str
    item: dict[str, Any]


async def read_chat_request(request: HttpRequest, settings: Settings, *, require_session: bool) -> ChatRequest:
    kind = request.headers.get("content-type", "application/json").partition(";")[0].strip().lower()
    if kind not in ("application/json", "text/plain", "") and not kind.endswith("+json"):
        raise BadBody(f"content type {kind!r} is not supported: send a JSON object as application/json")
    if (encoding := request.headers.get("content-encoding", "identity").lower()) != "identity":
        raise BadBody(f"content encoding {encoding!r} is not supported: send the body as it is")
    body = _parse(await _read(request, settings.max_body_bytes))
    action, session = _action(body), _session(body, require_session)
    return ChatRequest(action, session, _item(body, action, session, settings))


async def _read(request: HttpRequest, limit: int) -> bytes:
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > limit:
            size = f"{declared} bytes, " if (declared := request.headers.get("content-length", "")) else ""
            raise BodyTooLarge(f"the body is {size}more than {limit} (CONVOQ_MAX_BODY_BYTES)")
    return bytes(body)


def _parse(data: bytes) -> dict[str, Any]:
    if not data.strip():
        raise BadBody("the body is empty: send a JSON object with sessionId and chatInput")
    try:
        body = json.loads(data, parse_constant=_no_constant, parse_int=_integer)
    except RecursionError:
        raise BadBody("the body is nested too deeply") from None
    except ValueError as error:
        raise BadBody(f"the body is not JSON: {error}") from None
    if not isinstance(body, dict):
        raise BadBody(f"the body is {_name(body)}, not a JSON object")
    if (fault := json_fault(body)) is not None:
        raise BadBody(f"the body{f' at {fault.parameter!r}' if fault.parameter else ''}: {fault.message}")
    return body


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON value")


def _integer(digits: str) -> int:
    """An integer that msgpack, and so the queue, can carry."""
    if len(digits) > MAX_DIGITS or not -(1 << 63) <= (value := int(digits)) < 1 << 64:
        raise BadBody(f"the number {_quote(digits)} in the body does not fit into 64 bits")
    return value


def _name(value: object) -> str:
    """With its article, as messages say it."""
    names = {
        list: "an array",
        str: "a string",
        bool: "a boolean",
        int: "a number",
        float: "a number",
        dict: "an object",
    }
    return names.get(type(value), "null")


def _action(body: dict[str, Any]) -> Action:
    action = body.get("action")
    if action is None:
        return "sendMessage"
    if action not in ACTIONS:
        raise BadRequest(f"unknown action {_quote(action)}: expected one of {', '.join(ACTIONS)}")
    return cast(Action, action)


def _session(body: dict[str, Any], required: bool) -> str:
    session = body.get("sessionId")
    if session is None or session == "":
        if required:
            raise BadSession("sessionId is missing, and this chat requires one")
        return DEFAULT_SESSION
    if isinstance(session, int) and not isinstance(session, bool):
        return str(session)  # ids of Telegram, WhatsApp and the like are numbers
    if not isinstance(session, str):
        raise BadSession(f"sessionId is {_name(session)}, not a string or a whole number")
    if len(session) > SESSION_MAX_CHARS:
        raise BadSession(f"sessionId has {len(session)} characters, more than {SESSION_MAX_CHARS}")
    if any(unicodedata.category(char) == "Cc" for char in session):
        raise BadSession(f"sessionId {_quote(session)} holds control characters")
    return session


def _item(body: dict[str, Any], action: Action, session: str, settings: Settings) -> dict[str, Any]:
    text = body.get("chatInput")
    if text is not None and not isinstance(text, str):
        raise BadRequest(f"chatInput is {_name(text)}, not a string")
    if action != "loadPreviousSession" and not (text or "").strip() and not body.keys() - NOT_CONTENT:
        raise BadRequest("chatInput is missing or empty")
    if text and len(text) > settings.max_message_chars:
        raise BodyTooLarge(
            f"chatInput has {len(text)} characters, more than {settings.max_message_chars} (CONVOQ_MAX_MESSAGE_CHARS)"
        )
    return {**body, "sessionId": session, "action": action, "chatInput": text or ""}


def _quote(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "…"
