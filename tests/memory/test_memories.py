"""One contract, every backend: each is opened, written and read as an agent does it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import msgspec
import pytest
import structlog

from convoq import keys
from convoq.errors import Fenced, MemoryFailed
from convoq.ids import new_execution_id
from convoq.memory.base import Memory, Step, ToolUse, Turn
from convoq.memory.local import LocalMemories
from convoq.memory.redis_list import RedisListMemory, RedisMemories
from convoq.nodes.base import ExecutionInfo
from convoq.redis import Argument, Pipe, Script, async_client

TOOLS = (Step("let me see", (ToolUse("c1", "Calculator", '{"input":"1 + 1"}', "2"),)),)


def turn(number: int, steps: tuple[Step, ...] = (), started: float = 0, ended: float = 0) -> Turn:
    return Turn(f"x{number}:Agent:0:0", f"question {number} ✓", f"answer {number}", steps, started, ended)


def numbered(turns: Sequence[Turn]) -> list[int]:
    return [int(turn.id[1:].split(":")[0]) for turn in turns]


class Backend:
    """Opens memories of one workflow, and lets time pass."""

    async def open(self, session: str = "s", node: str = "Memory", *, window: int = 5, ttl_s: int = 3600) -> Memory:
        raise NotImplementedError

    async def pass_s(self, seconds: int) -> None:
        raise NotImplementedError


class MemoryContract:
    """What a memory promises. Subclasses say which one."""

    def backend(self) -> AbstractAsyncContextManager[Backend]:
        raise NotImplementedError

    @pytest.fixture(autouse=True)
    def _url(self, redis_url: str) -> None:
        self.redis_url = redis_url

    def test_a_session_begins_empty(self) -> None:
        async def main() -> None:
            async with self.backend() as backend:
                memory = await backend.open(window=3)
                assert memory.window == 3
                assert list(await memory.load()) == []

        asyncio.run(main())

    def test_turns_come_back_as_they_were_oldest_first(self) -> None:
        async def main() -> None:
            turns = [turn(1, started=1.5, ended=2.5), turn(2, TOOLS), Turn("x3", "q", "a", cut_off=True)]
            async with self.backend() as backend:
                for one in turns:
                    await (await backend.open()).append(one)
                assert list(await (await backend.open()).load()) == turns

        asyncio.run(main())

    def test_only_the_last_turns_are_kept(self) -> None:
        async def main() -> None:
            async with self.backend() as backend:
                memory = await backend.open(window=2)
                for number in range(5):
                    await memory.append(turn(number, TOOLS))
                assert numbered(await memory.load()) == [3, 4]
                assert numbered(await (await backend.open(window=50)).load()) == [3, 4]
                assert numbered(await (await backend.open(window=1)).load()) == [4]

        asyncio.run(main())

    def test_a_turn_is_kept_once(self) -> None:
        async def main() -> None:
            async with self.backend() as backend:
                memory = await backend.open(window=3)
                for number in (1, 1, 2, 1, 2):
                    await memory.append(turn(number))
                assert numbered(await memory.load()) == [1, 2]

        asyncio.run(main())

    @pytest.mark.parametrize("id", ['a"b', "a\\b", "a,b", "ü", '","content":"', "%s", "a.*"])
    def test_a_turn_with_an_odd_id_is_kept_once(self, id: str) -> None:
        async def main() -> None:
            async with self.backend() as backend:
                memory = await backend.open()
                await memory.append(Turn(f"{id}1", "q", "a"))
                await memory.append(Turn(id, "q", "a"))
                await memory.append(Turn(id, "again", "a"))
                assert [(one.id, one.user) for one in await memory.load()] == [(f"{id}1", "q"), (id, "q")]

        asyncio.run(main())

    def test_sessions_and_nodes_are_apart(self) -> None:
        async def main() -> None:
            names = [
                ("s", "Memory"),
                ("s", "Memory 2"),
                ("s:Memory", "2"),
                ("s", "Memory:2"),
                ("S", "Memory"),
                ("%3A", "é"),
            ]
            async with self.backend() as backend:
                for number, (session, node) in enumerate(names):
                    await (await backend.open(session, node)).append(turn(number))
                for number, (session, node) in enumerate(names):
                    assert numbered(await (await backend.open(session, node)).load()) == [number]

        asyncio.run(main())

    def test_an_idle_session_is_forgotten(self) -> None:
        async def main() -> None:
            async with self.backend() as backend:
                memory = await backend.open(ttl_s=60)
                await memory.append(turn(1))
                await backend.pass_s(59)
                assert numbered(await memory.load()) == [1]
                await backend.pass_s(2)
                assert list(await memory.load()) == []

        asyncio.run(main())

    def test_each_turn_renews_the_time_to_live(self) -> None:
        async def main() -> None:
            async with self.backend() as backend:
                memory = await backend.open(ttl_s=60)
                for number in range(3):
                    await memory.append(turn(number))
                    await backend.pass_s(59)
                assert numbered(await memory.load()) == [0, 1, 2]

        asyncio.run(main())

    def test_replace_and_clear(self) -> None:
        async def main() -> None:
            async with self.backend() as backend:
                memory = await backend.open(window=2, ttl_s=60)
                await memory.append(turn(1))
                await memory.replace([turn(5), turn(6, TOOLS), turn(7)])
                assert list(await memory.load()) == [turn(6, TOOLS), turn(7)]
                await memory.append(turn(8))
                assert numbered(await memory.load()) == [7, 8]
                await memory.replace([turn(9)])
                await backend.pass_s(61)
                assert list(await memory.load()) == []
                await memory.append(turn(1))
                await memory.clear()
                assert list(await memory.load()) == []

        asyncio.run(main())

    def test_a_turn_too_large_is_refused_and_nothing_is_lost(self) -> None:
        async def main() -> None:
            async with self.backend() as backend:
                memory = await backend.open()
                await memory.append(turn(1))
                with pytest.raises(MemoryFailed, match="'big' is too large to be remembered"):
                    await memory.append(Turn("big", "q", "x" * (1 << 20)))
                assert numbered(await memory.load()) == [1]

        asyncio.run(main())


def execution(id: str = "x", workflow: str = "wf") -> ExecutionInfo:
    return ExecutionInfo(id, 1, workflow, "Workflow", "s", "production", 0.0)


class LocalBackend(Backend):
    def __init__(self) -> None:
        self._now = 1000.0
        self._memories = LocalMemories(clock=lambda: self._now)

    async def open(self, session: str = "s", node: str = "Memory", *, window: int = 5, ttl_s: int = 3600) -> Memory:
        return self._memories(execution(), session, node, window=window, ttl_s=ttl_s)

    async def pass_s(self, seconds: int) -> None:
        self._now += seconds


class TestLocal(MemoryContract):
    @asynccontextmanager
    async def backend(self) -> AsyncIterator[Backend]:
        yield LocalBackend()

    def test_forgotten_sessions_take_no_room(self) -> None:
        async def main() -> None:
            now = 0.0
            memories = LocalMemories(clock=lambda: now)
            for number in range(10):
                now = number * 100.0
                await memories(execution(), f"s{number}", "m", window=5, ttl_s=60).append(turn(number))
            assert len(memories._stored) == 1

        asyncio.run(main())


class RedisBackend(Backend):
    """Time passes by taking it off the time-to-live that the server has set."""

    def __init__(self, pipe: Pipe) -> None:
        self.pipe = pipe
        self.workflow = new_execution_id()
        self.execution = execution(new_execution_id(), self.workflow)

    async def open(self, session: str = "s", node: str = "Memory", *, window: int = 5, ttl_s: int = 3600) -> Memory:
        record = keys.execution(self.execution.id)
        await self.pipe.command("HSET", record, "status", "running", "attempt", 1)
        await self.pipe.command("EXPIRE", record, 60)
        return RedisMemories(self.pipe)(self.execution, session, node, window=window, ttl_s=ttl_s)

    async def pass_s(self, seconds: int) -> None:
        for key in await self.pipe.command("KEYS", f"convoq:mem:{self.workflow}:*"):
            left_ms = await self.pipe.command("PTTL", key)
            assert left_ms > 0
            await self.pipe.command("PEXPIRE", key, left_ms - seconds * 1000)


class TestRedis(MemoryContract):
    @asynccontextmanager
    async def backend(self) -> AsyncIterator[RedisBackend]:
        client = async_client(self.redis_url)
        async with Pipe(client) as pipe:
            yield RedisBackend(pipe)
        await client.aclose()

    def test_two_elements_a_turn_with_a_time_to_live(self) -> None:
        async def main() -> None:
            async with self.backend() as backend:
                memory = await backend.open("s:1", "My Memory", window=2, ttl_s=60)
                await memory.append(turn(1, TOOLS, started=1.0, ended=2.0))
                key = f"convoq:mem:{backend.workflow}:s%3A1:My%20Memory"
                user, assistant = await backend.pipe.command("LRANGE", key, 0, -1)
                assert 0 < await backend.pipe.command("TTL", key) <= 60
                assert msgspec.json.decode(user) == {
                    "role": "user", "turn": "x1:Agent:0:0", "content": "question 1 ✓", "at": 1.0,
                }  # fmt: skip
                use = {"id": "c1", "name": "Calculator", "arguments": '{"input":"1 + 1"}', "result": "2"}
                assert msgspec.json.decode(assistant) == {
                    "role": "assistant", "turn": "x1:Agent:0:0", "content": "answer 1", "at": 2.0,
                    "steps": [{"text": "let me see", "calls": [use]}],
                }  # fmt: skip
                for number in range(2, 6):
                    await memory.append(turn(number))
                assert await backend.pipe.command("LLEN", key) == 4

        asyncio.run(main())

    @pytest.mark.parametrize(
        "record",
        [{"status": "running", "attempt": "2"}, {"status": "success", "attempt": "1"}, {}],
        ids=["another attempt", "ended", "no record"],
    )
    def test_an_attempt_that_was_taken_over_writes_nothing(self, record: dict[str, str]) -> None:
        async def main() -> None:
            async with self.backend() as backend:
                memory = await backend.open()
                await memory.append(turn(1))
                key = keys.execution(backend.execution.id)
                await backend.pipe.command("DEL", key)
                for name, value in record.items():
                    await backend.pipe.command("HSET", key, name, value)
                for write in (
                    memory.append(turn(2)),
                    memory.append(turn(1)),
                    memory.replace([turn(3)]),
                    memory.clear(),
                ):
                    with pytest.raises(Fenced):
                        await write
                assert numbered(await memory.load()) == [1]
                await backend.pipe.command("DEL", key)

        asyncio.run(main())

    def test_without_a_fence(self) -> None:
        async def main() -> None:
            async with self.backend() as backend:
                memory = RedisListMemory(backend.pipe, f"convoq:mem:{backend.workflow}:x:y", window=5, ttl_s=60)
                await memory.append(turn(1))
                assert numbered(await memory.load()) == [1]
                await memory.clear()
                assert list(await memory.load()) == []

        asyncio.run(main())

    def test_what_is_not_a_whole_turn_is_left_out_and_told(self) -> None:
        async def main() -> None:
            async with self.backend() as backend:
                memory = await backend.open()
                key = keys.memory(backend.workflow, "s", "Memory")
                user, answer = (
                    '{"role":"user","turn":"%s","content":"q"}',
                    '{"role":"assistant","turn":"%s","content":"a"}',
                )
                for element in (
                    answer % "x1", user % "x2", answer % "x2", "broken", user % "x3", user % "x4", answer % "x4",
                    user % "x5", answer % "x6",
                ):  # fmt: skip
                    await backend.pipe.command("RPUSH", key, element)
                with structlog.testing.capture_logs() as logs:
                    assert numbered(await memory.load()) == [2, 4]
                assert [(entry["key"], entry["elements"]) for entry in logs] == [(key, 5)]

        asyncio.run(main())

    def test_a_key_that_holds_something_else(self) -> None:
        async def main() -> None:
            async with self.backend() as backend:
                memory = await backend.open()
                key = keys.memory(backend.workflow, "s", "Memory")
                await backend.pipe.command("SET", key, "mine", "EX", 60)
                with pytest.raises(MemoryFailed, match=r"cannot read the memory .*WRONGTYPE"):
                    await memory.load()
                with pytest.raises(MemoryFailed, match=r"cannot write the memory .*WRONGTYPE"):
                    await memory.append(turn(1))
                assert await backend.pipe.command("GET", key) == b"mine"

        asyncio.run(main())

    def test_turns_of_many_writers_never_mix(self) -> None:
        async def main() -> None:
            async with self.backend() as one, self.backend() as two:
                two.workflow, two.execution = one.workflow, execution(two.execution.id, one.workflow)
                memories = [await backend.open(window=100) for backend in (one, two)]
                await asyncio.gather(*(memories[number % 2].append(turn(number, TOOLS)) for number in range(100)))
                turns = await memories[0].load()
                assert sorted(numbered(turns)) == list(range(100))
                assert all(one.answer == f"answer {number}" for one, number in zip(turns, numbered(turns), strict=True))

        asyncio.run(main())

    def test_one_round_trip_each_way(self, monkeypatch: pytest.MonkeyPatch) -> None:
        sent: list[Argument] = []
        send = Pipe.send

        def spy(pipe: Pipe, *arguments: Argument, script: Script | None = None) -> asyncio.Future[Any]:
            sent.append(arguments[0])
            return send(pipe, *arguments, script=script)

        async def main() -> None:
            async with self.backend() as backend:
                memory = await backend.open()
                monkeypatch.setattr(Pipe, "send", spy)
                await memory.load()
                await memory.append(turn(1))
                assert sent == ["LRANGE", "EVALSHA"]

        asyncio.run(main())
