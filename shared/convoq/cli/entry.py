"""Where the `convoq` command begins: until it is far enough to end well, a signal ends it at once.

The first process of a container (without an init) gets no signal that it does not handle: without this, one that comes
while the rest is imported would be lost.
"""

from __future__ import annotations

import os
import signal


def main() -> None:
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _end)
    from convoq.cli.main import main as run

    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        run()
    finally:
        for number in (signal.SIGTERM, signal.SIGINT):  # one more, now, must not make a failure of a good end
            signal.signal(number, signal.SIG_IGN)


def _end(number: int, _: object) -> None:
    os._exit(128 + number)


if __name__ == "__main__":
    main()
