"""A Redis list as n8n's Redis Chat Memory keeps it: a history may go on here or there."""

from __future__ import annotations

from collections.abc import Sequence

from redis.exceptions import RedisError

from convoq.contract.memory import MAX_SESSION_BYTES, History, Turn, check_size, session_too_large
from convoq.errors import Unavailable
from convoq.memory.n8n_messages import decode_message, encode_message, mark_of, read_turns, stored_messages
from convoq.memory.redis_list import RedisMemory
from convoq.memory.repair import sendable
from convoq.redis import load_script


class N8nListMemory(RedisMemory):
    """Never trimmed, as in n8n: others may read the list through a larger window. A session is bounded nevertheless."""

    async def load(self) -> History:
        script, arguments = load_script("load_n8n_turns"), [self.window, MAX_SESSION_BYTES]
        try:
            newest_first = await self._server.run(script, [self._key], arguments)
        except (RedisError, Unavailable) as error:
            self._fail("read", error)
        if not isinstance(newest_first, list):
            raise session_too_large(f"session {self._key!r}")
        turns, notes = read_turns(map(decode_message, reversed(newest_first)))
        return sendable(turns[-self.window :], notes)

    async def append(self, turn: Turn) -> None:
        check_size(turn)
        messages = [encode_message(message) for message in stored_messages(turn)]
        await self._write("append_n8n_turn", MAX_SESSION_BYTES, mark_of(turn), *messages)

    async def replace(self, turns: Sequence[Turn]) -> None:
        check_size(*turns)
        messages = [encode_message(message) for turn in turns for message in stored_messages(turn)]
        await self._write("replace_turns", MAX_SESSION_BYTES, *reversed(messages))
