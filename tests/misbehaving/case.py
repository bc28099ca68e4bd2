"""A behaviour of a model server, and what people have to see of it: whichever adapter talks to it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from tests.models.server import Answer


class Wire(Protocol):
    """How a protocol writes what a case needs: events of a streamed answer, the body of a refusal."""

    @property
    def done(self) -> bytes:
        """What comes after the reason why the model stopped."""
        ...

    def text(self, text: str) -> bytes: ...

    def reasoning(self, text: str) -> bytes: ...

    def calls(self, *calls: tuple[str, str, str]) -> bytes:
        """Whole calls: id, name, arguments."""
        ...

    def finish(self, reason: str) -> bytes:
        """`stop`, `tool_calls`, `length` or `content_filter`."""
        ...

    def raw(self, data: bytes) -> bytes:
        """An event with that data."""
        ...

    def error(self, message: str) -> bytes:
        """A failure told inside the stream."""
        ...

    def refusal(self, message: str) -> object: ...

    def results(self, request: dict[str, Any]) -> list[tuple[str, str]]:
        """The tool results in a request: the call's id, the text."""
        ...


GOOD = "Nice day."
Called = tuple[str, Mapping[str, Any]]


@dataclass(frozen=True)
class Expect:
    """What the agent makes of it.

    `text` is all that is read (by default the good answer, nothing before an error), `error` the code it ends with, if
    it does, `said` a part of the error's message. `calls` are those that reached a tool, `told` a part of what the
    model is then told. `requests` is how often the server is asked, `note` a part of the run data's notes, `logged` an
    event in the log.
    """

    text: str | None = None
    reasoning: str = ""
    cut: str = ""
    error: str = ""
    said: str = ""
    calls: Sequence[Called] = ()
    told: str = ""
    requests: int = 1
    note: str = ""
    logged: str = ""
    remembered: bool = True

    @property
    def read(self) -> str:
        if self.text is not None:
            return self.text
        return "" if self.error else GOOD


@dataclass(frozen=True)
class Case:
    """`answers` are the server's, in turn, the last again and again. `retries` and the time-outs are the model's: long,
    but for the one that a case is about."""

    name: str
    answers: Callable[[Any], Sequence[Answer]]
    expect: Expect = field(default_factory=Expect)
    retries: int = 0
    first_byte_timeout_s: float = 20.0
    between_chunks_timeout_s: float = 20.0

    def __str__(self) -> str:
        return self.name
