"""A Redis list as n8n's Redis Chat Memory keeps it: a history may go on here or there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from convoq.contract.memory import MAX_SESSION_BYTES, History, Turn, check_size
from convoq.memory.n8n_messages import decode_message, encode_message, mark_of, read_turns, stored_messages
from convoq.memory.redis_list import RedisMemory
from convoq.memory.repair import sendable


class N8nListMemory(RedisMemory):
    """Never trimmed, as in n8n: others may read the list through a larger window. A session is bounded nevertheless."""

    async def _read(self) -> History:
        newest_first = await self._run("read", "load_n8n_turns", [self._key], self.window, MAX_SESSION_BYTES)
        turns, notes = read_turns(map(decode_message, reversed(cast("list[bytes]", newest_first))))
        return sendable(turns[-self.window :], notes)

    async def append(self, turn: Turn) -> None:
        check_size(turn)
        messages = [encode_message(message) for message in stored_messages(turn)]
        await self._write("append_n8n_turn", MAX_SESSION_BYTES, mark_of(turn), *messages)

    async def replace(self, turns: Sequence[Turn]) -> None:
        check_size(*turns)
        messages = [encode_message(message) for turn in turns for message in stored_messages(turn)]
        await self._write("replace_turns", MAX_SESSION_BYTES, *reversed(messages))
