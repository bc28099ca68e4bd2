"""A model's words on their way to the client."""

from __future__ import annotations

from typing import Any

from convoq.contract.context import Context
from convoq.contract.model import TextDelta
from convoq.models.hearing import Spoken
from convoq.protocol import Cut, Kept


class Speech:
    """`begin` goes out with the first word, `end` when whoever speaks says so. Reasoning is for who asked for it.

    `text`: whether text is streamed at all. Where nobody reads a stream, reasoning is gathered for the one reply.
    """

    def __init__(self, ctx: Context[Any], item_index: int, *, text: bool) -> None:
        self._ctx = ctx
        self._item_index = item_index
        self._text = text and ctx.is_streaming()
        self._reasoning = ctx.wants_reasoning() and (self._text or not ctx.is_streaming())
        self._begun = False

    async def say(self, words: Spoken) -> None:
        is_text = isinstance(words, TextDelta)
        if self._text if is_text else self._reasoning:
            if not self._begun:
                self._begun = True
                await self._ctx.send_chunk("begin", self._item_index)
            await self._ctx.send_chunk("item" if is_text else "reasoning", self._item_index, words.text)

    async def end(self, cut: Cut | None = None, memory: Kept | None = None) -> None:
        """All is said; nothing where nothing was."""
        if self._begun:
            self._begun = False
            await self._ctx.send_chunk("end", self._item_index, cut=cut, memory=memory)
