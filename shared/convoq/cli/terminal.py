"""Text of others on this terminal."""

from __future__ import annotations

_CONTROLS = {code: None for code in (*range(0x20), *range(0x7F, 0xA0)) if chr(code) not in "\n\t"}


def printable(text: str) -> str:
    """Without the control characters by which a model or a server could steer the terminal."""
    return text.translate(_CONTROLS)
