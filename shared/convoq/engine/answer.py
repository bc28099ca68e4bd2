"""The end of a stream: nothing left open, no answer or error untold."""

from __future__ import annotations

import time
from collections.abc import Callable

import msgspec
from msgspec import UNSET

from convoq.engine.hooks import Hooks, at
from convoq.engine.outcome import Outcome
from convoq.protocol import Begin, End, Error, Item, Metadata


async def close_stream(outcome: Outcome, hooks: Hooks, *, clock: Callable[[], float] = time.time) -> None:
    """Emit what the client still has to be told. The last chunk is an `end`.

    After a failure: one `error` and one `end`, which also closes the segment that was open. After success: the answer
    as one begin/item/end of its node, where no text was streamed or nodes after the agent made another text of it, and
    no node answered of its own.
    """
    now = int(clock() * 1000)
    place = Metadata(outcome.node_id, outcome.last_node, 0, outcome.run_index, now)
    if outcome.error is not None:
        if opened := hooks.open_segments:
            place = at(opened[-1], now)
            for metadata in opened[:-1]:
                await hooks.emit(End(at(metadata, now)))
        await hooks.emit(Error(outcome.error.message or outcome.error.code, outcome.error.code, place))
        await hooks.emit(End(place))
        return
    await hooks.end_segments(now)
    if hooks.responded and hooks.streamed:
        return
    text = outcome.reply_text()
    # A last node that merely logs has no text for people: after a streamed answer its JSON would be noise.
    if not hooks.streamed or (outcome.has_text and text.strip() not in hooks.texts):
        await hooks.emit(Begin(place))
        await hooks.emit(Item(text, place))
        ending = msgspec.structs.replace(place, finish_reason=outcome.cut or UNSET, memory=outcome.memory or UNSET)
        await hooks.emit(End(ending))
