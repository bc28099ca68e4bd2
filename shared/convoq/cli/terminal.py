"""Text of others on this terminal."""

from __future__ import annotations

from msgspec import UNSET

from convoq.protocol import End

_CONTROLS = {code: None for code in (*range(0x20), *range(0x7F, 0xA0)) if chr(code) not in "\n\t"}


def printable(text: str) -> str:
    """Without the control characters by which a model or a server could steer the terminal."""
    return text.translate(_CONTROLS)


CUT_OFF = {"length": "cut off at the model's limit", "content_filter": "cut off by the provider's content filter"}


def cut_off(end: End) -> str:
    """Why an answer is not whole, empty where it is."""
    reason = end.metadata.finish_reason
    return "" if reason is UNSET else CUT_OFF[reason]
