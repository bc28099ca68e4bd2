"""The end of an execution, in one atomic step, whoever ends it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Literal

import msgspec
import redis

from convoq import keys
from convoq.delivery.admission import Slot
from convoq.delivery.entries import Ended, Entry
from convoq.memory.thread import THREAD_MAX
from convoq.redis import Argument, Pipe, load_script
from convoq.rq import RateLimitRegistry, now, utcformat
from convoq.settings import Settings

Who = Literal["running", "lapsed", "queued"]
"""Who may end it: the attempt that runs it, anybody after its lease has lapsed, anybody before a worker took it."""


class Finisher:
    def __init__(self, pipe: Pipe, connection: redis.Redis, settings: Settings) -> None:
        self._pipe = pipe
        self._connection = connection
        self._settings = settings
        self._script = load_script("finish")

    async def finish(
        self,
        execution_id: str,
        token: str,
        who: Who,
        slot_key: str,
        ended: Ended,
        entry: Entry,
        commands: Sequence[Argument],
        *,
        run_data: bytes = b"",
        partial: str = "",
        exchange: bytes = b"",
    ) -> int:
        """1 done, 0 not so any more, -2 the log is further than `entry.first`. `commands` are RQ's, see `ledger`.

        `exchange` is what the session's thread is to keep of it (`convoq.memory.thread`).
        """
        settings = self._settings
        slot = Slot.of(slot_key)
        done: int = await self._pipe.run(
            self._script,
            [
                *(keys.execution(execution_id), keys.stream_log(execution_id), keys.LEASES),
                *(keys.run_data(execution_id), slot.config, slot.allowed, slot.limited),
                *(RateLimitRegistry.rl_keys_key, keys.WAITING, keys.joined(execution_id)),
                f"{keys.PREFIX}thread:{slot_key}",
            ],
            [
                *(execution_id, token, entry.first, entry.count, entry.pack(), len(entry.lines)),
                *(settings.stream_ttl_s, ended.status, msgspec.json.encode(ended.error), int(time.time() * 1000)),
                *(run_data, settings.run_data_ttl_s, slot_key, utcformat(now()), who, partial),
                *(exchange, THREAD_MAX, settings.memory_ttl_s, settings.session_records_ttl_s, *commands),
            ],
        )
        return done
