"""A provider's own words in an error, as people can read them."""

from __future__ import annotations

import msgspec

MAX_CHARS = 500


def problem_of(body: bytes) -> str:
    """The message in an error's body: OpenAI's, FastAPI's, a bare text. Empty if there is none."""
    text = body.decode(errors="replace")
    try:
        return problem_in(msgspec.json.decode(body)) or text
    except (msgspec.DecodeError, UnicodeDecodeError):
        return text


def problem_in(told: object) -> str:
    """The same of a body that is read already."""
    for key in ("error", "message", "detail"):
        if isinstance(told, dict) and told.get(key):
            told = told[key]
    return told if isinstance(told, str) else ""


def short(text: str) -> str:
    """On one line, and not too long."""
    text = " ".join(text.split())
    return text if len(text) <= MAX_CHARS else text[: MAX_CHARS - 1] + "…"
