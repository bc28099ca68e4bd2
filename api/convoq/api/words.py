"""What clients read of a failure: all of it, or a sentence for its kind and an id that finds the rest in the log."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from convoq.api.state import State
from convoq.delivery.entries import Entry
from convoq.errors import ConvoqError, public_text
from convoq.protocol import Error, decode_line, encode_line

ERROR_LINE = b'{"type":"error"'
"""How the line of an error begins."""
FOR_ALL = ("retry_after", "execution")
"""Details of errors that tell nothing of the inside."""


@dataclass(frozen=True, slots=True)
class Words:
    """For the client of one execution, or of a request that came to none: `id` is then only in the log.

    `own` is the Chat Trigger's text for failures, if it has one.
    """

    details: bool
    id: str
    own: str = ""
    of: Literal["execution", "reference"] = "execution"

    def text(self, code: str, message: str) -> str:
        sentence = None if self.details else public_text(code)
        if sentence is None:
            return message
        return self.own.replace("{executionId}", self.id) if self.own else f"{sentence} ({self.of} {self.id})"

    def error(self, error: Mapping[str, Any]) -> dict[str, Any]:
        """The JSON form of an error (`ConvoqError.as_dict`), as the client reads it."""
        if self.details or public_text(error["code"]) is None:
            return dict(error)
        code, kept = error["code"], {key: error[key] for key in FOR_ALL if key in error}
        name = "executionId" if self.of == "execution" else self.of
        return {"code": code, "message": self.text(code, error["message"]), name: self.id, **kept}

    def entry(self, entry: Entry) -> Entry:
        """The entry with its errors as the client reads them."""
        if self.details or ERROR_LINE not in entry.lines:
            return entry
        return replace(entry, lines=b"".join(map(self._line, entry.lines.splitlines(keepends=True))))

    def _line(self, line: bytes) -> bytes:
        if not line.startswith(ERROR_LINE):
            return line
        chunk = decode_line(line)
        assert isinstance(chunk, Error)
        chunk.content = self.text(chunk.code, chunk.content)
        return encode_line(chunk) + b"\n"


async def words_of(state: State, execution_id: str, workflow_id: str, trigger: str) -> Words:
    """For who comes back to an execution. Without the text of a trigger that is not there any more."""
    own = ""
    if not state.settings.error_details:
        try:
            workflow = await state.store.get(workflow_id)
        except ConvoqError:
            workflow = None  # as stored it is not sound any more
        triggers = [] if workflow is None else workflow.chat_triggers()
        own = next((t.parameters.options.error_message for t in triggers if t.node.name == trigger), "")
    return Words(state.settings.error_details, execution_id, own)
