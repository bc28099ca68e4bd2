"""Property, on a real server: whatever workers do, die or wake up at, in whatever order, the turns of a session are
executed one after the other as they were accepted, each ends once, and nothing is left behind.
"""

from __future__ import annotations

import asyncio
import secrets
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Literal

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, given, settings

from convoq import keys
from convoq.delivery.admission import ChatQueue, Request
from convoq.delivery.entries import Ended, Entry
from convoq.delivery.finish import Finisher
from convoq.delivery.takeover import Takeover
from convoq.delivery.writer import Outbox, StreamWriter
from convoq.errors import ExecutionFailed, Fenced
from convoq.protocol import Item, Metadata
from convoq.redis import Pipe, async_client, load_script, sync_client
from convoq.settings import Settings

Action = Literal["admit", "take", "write", "finish", "lose", "stale write", "stale finish", "stop waiting"]
ACTIONS: tuple[Action, ...] = (
    *("admit", "admit", "take", "take", "write", "finish"),
    *("lose", "stale write", "stale finish", "stop waiting"),
)
QUEUE, BETWEEN = "convoq:rq:queue:chat", "convoq:rq:queue:chat:intermediate"
DONE = Ended("success", {})


@dataclass(frozen=True)
class Hold:
    """An attempt, as the worker that runs it knows it."""

    id: str
    attempt: int
    token: str
    writer: StreamWriter


@dataclass
class Model:
    """What should be. Sessions are told by their index; the order of ids is that of acceptance."""

    pipe: Pipe
    config: Settings
    accepted: dict[int, list[str]] = field(default_factory=lambda: defaultdict(list))
    begun: dict[int, list[str]] = field(default_factory=lambda: defaultdict(list))
    ended: set[str] = field(default_factory=set)
    held: list[Hold] = field(default_factory=list)
    stale: list[Hold] = field(default_factory=list)

    def __post_init__(self) -> None:
        connection = sync_client(self.config.redis_url)
        self.queue = ChatQueue(self.pipe, connection, self.config)
        self.finisher = Finisher(self.pipe, connection, self.config)
        self.takeover = Takeover(self.pipe, connection, self.config)
        self.outbox = Outbox(self.pipe, self.config)
        self.claim = load_script("claim")

    def session_of(self, execution_id: str) -> int:
        return next(session for session, ids in self.accepted.items() if execution_id in ids)

    async def do(self, action: Action, at: int) -> None:
        match action:
            case "admit":
                item = {"sessionId": str(at % 3), "chatInput": "hello"}
                request = Request("wf", "v", "Chat", str(at % 3), item, stream=True)
                admitted = await self.queue.admit(self.queue.new_id(), request)
                self.accepted[at % 3].append(admitted.execution_id)
            case "take":
                await self.take()
            case "write" if self.held:
                await self.write(self.held[at % len(self.held)])
            case "finish" if self.held:
                hold = self.held.pop(at % len(self.held))
                assert await self.finish(hold) == 1
                self.ended.add(hold.id)
            case "lose" if self.held:
                await self.lose(self.held.pop(at % len(self.held)))
            case "stale write" if self.stale:
                with pytest.raises((Fenced, ExecutionFailed)):
                    await self.write(self.stale.pop(at % len(self.stale)))
            case "stale finish" if self.stale:
                assert await self.finish(self.stale[at % len(self.stale)]) == 0
            case "stop waiting":
                await self.stop_waiting(at)
            case _:
                pass

    async def take(self) -> bool:
        found = await self.pipe.command("LMOVE", QUEUE, BETWEEN, "LEFT", "RIGHT")
        if found is None:
            return False
        one = found.decode()
        names = [keys.execution(one), f"convoq:rq:job:{one}", BETWEEN, keys.LEASES, keys.WAITING, keys.joined(one)]
        token = secrets.token_hex(8)
        attempt, *_ = await self.pipe.run(self.claim, names, [one, token, "worker", 60, 0])
        self.held.append(Hold(one, attempt, token, StreamWriter(self.outbox, one, token)))
        if attempt == 1:
            self.begun[self.session_of(one)].append(one)
        return True

    async def write(self, hold: Hold) -> None:
        await hold.writer.send(Item("word", Metadata("", "")))
        await hold.writer.flush()

    async def finish(self, hold: Hold) -> int:
        slot = keys.session("wf", str(self.session_of(hold.id)))
        entry = Entry(hold.writer.next, 0, b"", DONE)
        return await self.finisher.finish(hold.id, hold.token, "running", slot, DONE, entry, [])

    async def lose(self, hold: Hold) -> None:
        """Its worker is silent; several notice at once."""
        await self.pipe.command("ZADD", keys.LEASES, 0, hold.id)
        await asyncio.gather(*(self.takeover.settle(hold.id) for _ in range(3)))
        self.stale.append(hold)
        again = not hold.writer.next and hold.attempt < self.config.max_attempts
        status = await self.status(hold.id)
        assert status == ("queued" if again else "error")
        if not again:
            self.ended.add(hold.id)

    async def stop_waiting(self, at: int) -> None:
        ids = [one for session in self.accepted.values() for one in session if one not in self.ended]
        if ids and (one := ids[at % len(ids)]) not in {hold.id for hold in self.held}:
            assert await self.takeover.stop_waiting(one)
            await self.takeover.stop_waiting(one)  # harmless when repeated
            self.ended.add(one)

    async def status(self, execution_id: str) -> str:
        value: bytes = await self.pipe.command("HGET", keys.execution(execution_id), "status")
        return value.decode()

    async def check(self) -> None:
        for session, ids in self.accepted.items():
            left = [one for one in ids if one not in self.ended]
            slot = keys.session("wf", str(session))
            allowed = await self.pipe.command("ZRANGE", f"convoq:rq:rl:{slot}:allowed", 0, -1)
            assert [one.decode() for one in allowed] == left[:1]
            running = [one for one in ids if await self.status(one) == "running"]
            assert running == [hold.id for hold in self.held if hold.id in ids]
            assert len(running) <= 1
            begun = self.begun[session]
            assert begun == [one for one in ids if one in begun]

    async def drain(self) -> None:
        """The rest is run: then nothing of it may be left."""
        while True:
            for hold in self.held:
                assert await self.finish(hold) == 1
                self.ended.add(hold.id)
            self.held.clear()
            if not await self.take():
                break
        assert self.ended == {one for ids in self.accepted.values() for one in ids}
        for hold in self.stale:
            assert await self.finish(hold) == 0
        for one in self.ended:
            log = await self.pipe.command("XRANGE", keys.stream_log(one), "-", "+")
            assert [Entry.unpack(fields[1]).end is not None for _, fields in log] == [False] * (len(log) - 1) + [True]
        left = [key.decode() for key in await self.pipe.command("KEYS", "*")]
        assert not [
            key for key in left if key.startswith(("convoq:rq:rl", "convoq:rq:wip", QUEUE)) or key in TO_BE_EMPTY
        ]


TO_BE_EMPTY = (keys.LEASES, keys.WAITING)


@given(steps=st.lists(st.tuples(st.sampled_from(ACTIONS), st.integers(0, 11)), max_size=50))
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_order_of_events(redis_url: str, steps: list[tuple[Action, int]]) -> None:
    async def story() -> None:
        config = Settings(redis_url=f"{redis_url}/6", max_attempts=2)
        async with async_client(config.redis_url) as client, Pipe(client) as pipe:
            await pipe.command("FLUSHDB")
            model = Model(pipe, config)
            for action, at in steps:
                await model.do(action, at)
                await model.check()
            await model.drain()

    asyncio.run(story())
