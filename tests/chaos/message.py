"""One message of the storm, and what its client saw of the answer."""

from __future__ import annotations

import asyncio
import re
import time
from dataclasses import dataclass, field
from typing import Any

WORD = re.compile(r"(\S+)/(\d+):(\d+)#(\d+) ")


@dataclass(eq=False)
class Message:
    """`tokens`, `first_ms` and `pace_ms` are what it asks of the model. Times are monotonic, in seconds.

    `noticed` are the moments at which something was told that ends a wait after a fault: (time, type of line).
    `ending` is `complete`, the code of the error, or empty while nothing is known.
    """

    session: str
    number: int
    tokens: int
    first_ms: int
    pace_ms: int
    slow_reader: bool = False
    sse: bool = False
    twin: bool = False
    execution_id: str = ""
    token: str = ""
    accepted: asyncio.Event = field(default_factory=asyncio.Event)
    sent_at: float = 0.0
    ended_at: float = 0.0
    seq: int = -1
    words: list[tuple[int, str]] = field(default_factory=list)
    error: str = ""
    ending: str = ""
    stop_asked: bool = False
    left: int = 0
    connections: list[float] = field(default_factory=list)
    noticed: list[tuple[float, str]] = field(default_factory=list)
    lost: int = 0
    repeated: int = 0
    mixed: int = 0
    faults: list[str] = field(default_factory=list)
    _last_type: str = ""
    _text: str = ""

    @property
    def name(self) -> str:
        return f"{self.session}/{self.number}"

    @property
    def text(self) -> str:
        return f"{self.name} {self.tokens} {self.first_ms} {self.pace_ms}"

    @property
    def answer(self) -> str:
        return "".join(f"{self.name}:{index}#{call} " for index, call in self.words)

    @property
    def whole(self) -> bool:
        """What a complete answer must be: all words of one call, each once and in order."""
        return [index for index, _ in self.words] == list(range(self.tokens)) and len({c for _, c in self.words}) == 1

    def connected(self) -> None:
        self.connections.append(time.monotonic())

    def read(self, line: dict[str, Any]) -> None:
        kind = line["type"]
        if kind == "retry":
            self.noticed.append((time.monotonic(), kind))
        if "seq" not in line:
            return
        seq = line["seq"]
        if seq <= self.seq:
            self.repeated += 1
            self.faults.append(f"chunk {seq} again after {self.seq}: {line}")
            return
        if seq > self.seq + 1:
            self.lost += seq - self.seq - 1
            self.faults.append(f"chunk {seq} came after {self.seq}: {line}")
        self.seq = seq
        self._last_type = kind
        if kind in ("begin", "error", "end"):
            self.noticed.append((time.monotonic(), kind))
        if kind == "item":
            self._read_words(line["content"])
        elif kind == "error":
            self.error = line["code"]

    def _read_words(self, content: str) -> None:
        self._text += content
        while found := WORD.match(self._text):
            self._text = self._text[found.end() :]
            session, number, index, call = found.groups()
            if f"{session}/{number}" != self.name or (self.words and call != self.words[-1][1]):
                self.mixed += 1
                self.faults.append(f"{found[0]!r} in the answer to {self.name}, of call {self.words[-1:]}")
            else:
                self.words.append((int(index), call))

    def closed(self) -> bool:
        """The stream has ended as streams do; whether it may."""
        if self._last_type != "end":
            self.faults.append(f"the stream ended after {self._last_type!r}, chunk {self.seq}")
            return False
        if not self.error:
            indexes = [index for index, _ in self.words]
            missing = len(set(range(self.tokens)) - set(indexes))
            if missing:
                self.lost += missing
                self.faults.append(f"the answer ended well after {len(indexes)} of {self.tokens} words")
            self.repeated += len(indexes) - len(set(indexes))
        self.end(self.error or "complete")
        return True

    def end(self, ending: str) -> None:
        self.ending = ending
        self.ended_at = time.monotonic()
        self.noticed.append((self.ended_at, "end"))
        self.accepted.set()
