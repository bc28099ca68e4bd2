"""Anthropic's messages."""

from __future__ import annotations

import json
from typing import Any

STOP_REASONS = {"stop": "end_turn", "tool_calls": "tool_use", "length": "max_tokens", "content_filter": "refusal"}


class AnthropicWire:
    """Each piece is a block of its own. The first of an answer begins with `message_start`."""

    def __init__(self) -> None:
        self._index = -1

    def text(self, text: str) -> bytes:
        return self._block({"type": "text", "text": ""}, {"type": "text_delta", "text": text})

    def reasoning(self, text: str) -> bytes:
        return self._block(
            {"type": "thinking", "thinking": "", "signature": ""},
            {"type": "thinking_delta", "thinking": text},
            {"type": "signature_delta", "signature": "c2lnbmVk"},
        )

    def calls(self, *calls: tuple[str, str, str]) -> bytes:
        return b"".join(
            self._block(
                {"type": "tool_use", "id": id, "name": name, "input": {}},
                {"type": "input_json_delta", "partial_json": arguments},
            )
            for id, name, arguments in calls
        )

    def finish(self, reason: str) -> bytes:
        delta = {"stop_reason": STOP_REASONS[reason], "stop_sequence": None}
        made = self._start() + event("message_delta", delta=delta, usage={"output_tokens": 3})
        self._index = -1
        return made

    @property
    def done(self) -> bytes:
        return event("message_stop")

    def raw(self, data: bytes) -> bytes:
        return self._start() + b"event: content_block_delta\ndata: " + data + b"\n\n"

    def error(self, message: str) -> bytes:
        return event("error", error={"type": "api_error", "message": message})

    def refusal(self, message: str) -> object:
        return {"type": "error", "error": {"type": "some_error", "message": message}}

    def results(self, request: dict[str, Any]) -> list[tuple[str, str]]:
        blocks = [
            block
            for message in request["messages"]
            if isinstance(message["content"], list)
            for block in message["content"]
        ]
        return [
            (block["tool_use_id"], json.dumps(block["content"])) for block in blocks if block["type"] == "tool_result"
        ]

    def _start(self) -> bytes:
        if self._index >= 0:
            return b""
        self._index = 0
        usage = {"input_tokens": 7, "output_tokens": 1}
        message = {"id": "m", "type": "message", "role": "assistant", "model": "m", "content": [], "usage": usage}
        return event("message_start", message={**message, "stop_reason": None, "stop_sequence": None})

    def _block(self, start: dict[str, Any], *deltas: dict[str, Any]) -> bytes:
        made = self._start() + event("content_block_start", index=self._index, content_block=start)
        made += b"".join(event("content_block_delta", index=self._index, delta=delta) for delta in deltas)
        made += event("content_block_stop", index=self._index)
        self._index += 1
        return made


def event(kind: str, **more: Any) -> bytes:
    data = json.dumps({"type": kind, **more}, ensure_ascii=False)
    return f"event: {kind}\ndata: {data}\n\n".encode()
