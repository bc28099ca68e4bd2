"""A child of `convoq up` ends when `up` is gone, however that came about: `up` holds the write end of a pipe."""

from __future__ import annotations

import os
import signal
import threading

VARIABLE = "CONVOQ_PARENT_FD"
"""Names the pipe's read end in the child's environment."""


def end_with_parent() -> None:
    """Send this process a SIGTERM (so that it drains) once the parent's end of the pipe is closed."""
    descriptor = os.environ.pop(VARIABLE, None)
    if descriptor is None:
        return

    def watch(fd: int) -> None:
        os.read(fd, 1)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, args=(int(descriptor),), name="parent-watch", daemon=True).start()
