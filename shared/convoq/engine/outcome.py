"""What became of a run, and which node gives its answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import msgspec

from convoq.contract.waiting import Wait
from convoq.engine.state import Executed
from convoq.errors import ConvoqError
from convoq.protocol import Cut, Kept

ANSWER_KEYS = ("output", "text", "message")
NO_OUTPUT = "The workflow ran, but its last node has no output"


@dataclass(frozen=True, slots=True)
class Outcome:
    """`last_node` is the node that answers, or the one that failed; `items` are the JSON of the answering node's first
    output that has any; `goes_on` tells that this node makes items of its errors. An outcome made of an error alone
    stands for a run that was ended from outside."""

    status: Literal["success", "error", "waiting"]
    error: ConvoqError | None = None
    last_node: str = ""
    node_id: str = ""
    run_index: int = 0
    items: Sequence[Mapping[str, Any]] = ()
    wait: Wait | None = None
    goes_on: bool = False

    @property
    def reply(self) -> dict[str, Any]:
        """The JSON answer of responseMode `lastNode`."""
        if self.error is not None:
            return self.error.as_dict()
        return dict(self.items[0]) if self.items else {"message": NO_OUTPUT}

    @property
    def has_text(self) -> bool:
        """Whether the answer is one made for people."""
        return bool(self.items) and is_answer(self.items[0])

    @property
    def cut(self) -> Cut | None:
        """Why the answer is not whole, where an agent's item says that it is not."""
        reason = self.items[0].get("finishReason") if self.items else None
        return reason if reason in ("length", "content_filter") else None

    @property
    def memory(self) -> Kept | None:
        """How the answer is remembered, where an agent's item says that it is not remembered whole."""
        return "shortened" if self.items and self.items[0].get("memory") == "shortened" else None

    @property
    def passed_over(self) -> str:
        """The error that is the answer, where the answering node went on after one."""
        error = self.items[0].get("error") if self.goes_on and self.items and not self.has_text else None
        return error if isinstance(error, str) else ""

    def with_error(self, text: str) -> Outcome:
        """The same with another text for `passed_over`."""
        return replace(self, items=[{**item, "error": text} for item in self.items])

    def reply_text(self) -> str:
        """The answer in words: `output`, else `text`, else `message`, else the `error` of a node that goes on after
        one, else the JSON."""
        reply = self.reply
        value = next((reply[key] for key in (*ANSWER_KEYS, "error") if reply.get(key) is not None), reply)
        if isinstance(value, Mapping) and isinstance(said := value.get("content"), str):
            return said  # a chat message, as the node of a provider's application gives it
        return value if isinstance(value, str) else msgspec.json.encode(value, enc_hook=str).decode()


def is_answer(item: Mapping[str, Any]) -> bool:
    return any(item.get(key) is not None for key in ANSWER_KEYS)


def outcome_of(history: Sequence[Executed]) -> Outcome:
    """The answer of a run that ended well.

    It is that of the last node that nothing came after and whose first item has an `output`, `text` or `message`, so a
    side branch cannot replace an agent's answer; else that of the last node with items. The trigger, which only repeats
    the message, answers where nothing else ran.
    """
    candidates = history[1:] or history
    ran = {executed.name for executed in history}
    found = [(executed, items) for executed in candidates if (items := _first_output(executed))]
    ends = [pair for pair in found if not any(edge.target in ran for edge in pair[0].step.edges)]
    chosen = [pair for pair in ends if is_answer(pair[1][0])] or found or [(candidates[-1], [])]
    executed, items = chosen[-1]
    node = executed.step.node
    goes_on = node.on_error != "stopWorkflow"
    return Outcome("success", None, executed.name, node.id, executed.run_index, items, goes_on=goes_on)


def waiting_for(executed: Executed, wait: Wait) -> Outcome:
    return Outcome("waiting", None, executed.name, executed.step.node.id, executed.run_index, wait=wait)


def failure_of(executed: Executed, error: ConvoqError) -> Outcome:
    return Outcome("error", error, executed.name, executed.step.node.id, executed.run_index)


def _first_output(executed: Executed) -> list[dict[str, Any]]:
    return next(([item.json for item in items] for items in executed.outputs if items), [])
