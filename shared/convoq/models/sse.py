"""Server-sent events, cut out of raw chunks."""

from __future__ import annotations

MAX_EVENT_BYTES = 1 << 20
"""One event is one delta: a megabyte of it is not an answer but an attack or a mistake."""


class TooLarge(ValueError):
    pass


class EventParser:
    """The data of each event, as https://html.spec.whatwg.org/multipage/server-sent-events.html tells events apart.

    Only `data` fields matter to a chat completion; comments, `event`, `id` and `retry` are dropped. Chunks may be cut
    anywhere, also within a character or between CR and LF. Lines that end with CR alone are not understood: no server
    of this kind sends them.
    """

    def __init__(self) -> None:
        self._rest = b""
        self._data: list[bytes] = []
        self._size = 0

    def feed(self, chunk: bytes) -> list[bytes]:
        """The data of the events that end in this chunk. Raises `TooLarge`."""
        lines = (self._rest + chunk if self._rest else chunk).split(b"\n")
        self._rest = lines.pop()
        events = []
        for line in lines:
            if line.endswith(b"\r"):
                line = line[:-1]
            if not line:
                if self._data:
                    events.append(self._event())
            elif line.startswith(b"data:"):
                self._data.append(line[6:] if line.startswith(b"data: ") else line[5:])
                self._size += len(line)
        if self._size + len(self._rest) > MAX_EVENT_BYTES:
            raise TooLarge(f"one event of the stream is larger than {MAX_EVENT_BYTES} bytes")
        return events

    def _event(self) -> bytes:
        event = self._data[0] if len(self._data) == 1 else b"\n".join(self._data)
        self._data.clear()
        self._size = 0
        return event
