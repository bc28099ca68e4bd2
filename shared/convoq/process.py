"""What every long-lived process of convoq does at its start."""

from __future__ import annotations

import gc

from convoq.logs import configure_logs
from convoq.settings import Settings

GC_THRESHOLD = 20_000
"""Python's 700 lets a loaded process look for garbage dozens of times a message, though its objects die by reference
count."""


def set_up(settings: Settings) -> None:
    """Logs; and what is imported by now is never looked through for garbage again."""
    configure_logs(settings)
    gc.collect()
    gc.freeze()
    gc.set_threshold(GC_THRESHOLD, 20, 20)
