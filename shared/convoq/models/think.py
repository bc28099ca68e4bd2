"""Reasoning that stands in the text itself, as `<think>…</think>` at its head."""

from __future__ import annotations

TAGS = {"<think>": "</think>", "[THINK]": "[/THINK]", "<seed:think>": "</seed:think>"}
"""Of DeepSeek R1, Qwen and most others; of Magistral; of Seed: what their chat templates write, where the server does
not take it out. Tags that only a prompt asks for (`<thinking>`) are the workflow's own business."""
MAX_HELD_CHARS = 200
"""More white space than that at the head of an answer is no loss."""


class ThinkFilter:
    """Parts the head of a text from the rest of it, piece by piece.

    `feed` gives (reasoning, text). `done` tells that the rest is text, whatever stands in it: who sees that need not
    ask any more. White space before the first word is held back until it is known what follows it.
    """

    __slots__ = ("_close", "_held", "_thought", "done")

    def __init__(self) -> None:
        self.done = False
        self._held = ""
        self._close = ""
        self._thought = False

    def feed(self, text: str) -> tuple[str, str]:
        text = self._held + text
        self._held = ""
        reasoning = ""
        while not self.done:
            if self._close:
                before, closed, after = text.partition(self._close)
                if not closed:
                    self._held = _beginning_of(self._close, text)
                    return reasoning + text[: len(text) - len(self._held)], ""
                reasoning += before
                self._close, self._thought, text = "", True, after
            word = text.lstrip()
            if tag := next((tag for tag in TAGS if word.startswith(tag)), ""):
                self._close, text = TAGS[tag], word[len(tag) :]
            elif any(tag.startswith(word) for tag in TAGS):  # also where there is nothing but white space
                self._held = text[-MAX_HELD_CHARS:]
                return reasoning, ""
            else:
                self.done = True
                text = word if self._thought else text
        return reasoning, text

    def close(self) -> tuple[str, str]:
        """What is still held back when the text has ended."""
        held, self._held = self._held, ""
        if self._close:
            return held, ""
        return "", held if held.strip() else ""


def _beginning_of(tag: str, text: str) -> str:
    """The longest end of `text` that `tag` begins with, the whole tag apart."""
    for size in range(min(len(tag) - 1, len(text)), 0, -1):
        if text.endswith(tag[:size]):
            return tag[:size]
    return ""
