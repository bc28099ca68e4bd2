"""What every memory promises, as tests. A subclass says which memory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager

import pytest

from convoq.contract.memory import MAX_MESSAGE_BYTES, Step, ToolUse, Turn
from convoq.errors import Fenced, MemoryFailed
from tests.memory import strict
from tests.memory.backends import Backend

TOOLS = (Step("let me see", (ToolUse("c1", "Calculator", '{"input":"1 + 1"}', "2"),)),)
MANY_TOOLS = (
    Step("", (ToolUse("d1", "a", "{}", "", failed=True), ToolUse("d2", "b", '{"x":[1,null,{"type":"human"}]}', "ü"))),
    Step("and", (ToolUse("d3", "a", '{"y":"\\"type\\":\\"human\\""}', "$set"),)),
)


def turn(number: int, steps: tuple[Step, ...] = (), started: float = 0, ended: float = 0) -> Turn:
    return Turn(f"x{number}:Agent:0:0", f"question {number} ✓", f"answer {number}", steps, started, ended)


def numbered(turns: Sequence[Turn]) -> list[int]:
    return [int(turn.id[1:].split(":")[0]) for turn in turns]


class MemoryContract:
    def backend(self) -> AbstractAsyncContextManager[Backend]:
        raise NotImplementedError

    def test_a_session_begins_empty(self) -> None:
        async def main() -> None:
            async with self.backend() as backend:
                memory = await backend.open(window=3)
                assert memory.window == 3
                assert list(await memory.load()) == []

        asyncio.run(main())

    def test_turns_come_back_as_they_were_oldest_first(self) -> None:
        async def main() -> None:
            turns = [
                turn(1, started=1.5, ended=2.5),
                turn(2, TOOLS),
                Turn("x3", "q", "a", cut_off=True),
                turn(4, MANY_TOOLS),
                Turn("x5", "q", "", MANY_TOOLS[1:], cut_off=True),
                Turn("x6", "q", "", cut_off=True),
                Turn("x7", "hidden", "a", hidden=True),
                Turn("x8", "", "", system="be brief"),
                Turn("x9", '{"type":"human"} $where \\ "quoted" \u2028 🦊', "a\n\nb\t"),
            ]
            async with self.backend() as backend:
                for one in turns:
                    await (await backend.open(window=20)).append(one)
                loaded = await (await backend.open(window=20)).load()
                assert [one.id for one in loaded] == [one.id for one in turns]
                for one, written in zip(loaded, turns, strict=True):
                    calls = {use.id for step in written.steps for use in step.calls}
                    if not calls & {"d3"} or written.id == "x4":
                        assert one == written
                strict.check(loaded)
                await (await backend.open(window=20)).replace(turns[:4])
                assert list(await (await backend.open(window=20)).load()) == turns[:4]

        asyncio.run(main())

    def test_only_the_last_turns_are_loaded(self) -> None:
        async def main() -> None:
            async with self.backend() as backend:
                memory = await backend.open(window=2)
                for number in range(5):
                    await memory.append(turn(number, TOOLS))
                assert numbered(await memory.load()) == [3, 4]
                assert numbered(await (await backend.open(window=50)).load()) == (
                    [3, 4] if backend.trims else [0, 1, 2, 3, 4]
                )
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

    def test_a_turn_is_kept_once_by_many_at_the_same_time(self) -> None:
        async def main() -> None:
            async with self.workers() as backends:
                memories = [await backend.open() for backend in backends for _ in range(4)]
                await asyncio.gather(*(memory.append(turn(1, TOOLS)) for memory in memories))
                assert list(await memories[0].load()) == [turn(1, TOOLS)]

        asyncio.run(main())

    @pytest.mark.parametrize("id", ['a"b', "a\\b", "a,b", "ü", '","content":"', "%s", "a.*", "$a"])
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
                ("'; DROP TABLE x; --", "m"),
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
                if not backend.expires:
                    return  # n8n's databases keep what they have
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
                if not backend.expires:
                    return
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
                assert numbered(await memory.load()) == [9]
                await memory.clear()
                assert list(await memory.load()) == []
                await memory.append(turn(9))
                assert numbered(await memory.load()) == [9]
                await memory.clear()
                await memory.clear()

        asyncio.run(main())

    def test_what_is_too_large_is_refused_and_nothing_is_lost(self) -> None:
        async def main() -> None:
            large, half = "x" * (MAX_MESSAGE_BYTES + 1), "é" * (MAX_MESSAGE_BYTES // 2)
            async with self.backend() as backend:
                memory = await backend.open()
                await memory.append(turn(1))
                with pytest.raises(
                    MemoryFailed, match=r"'big' is too large to be remembered: the answer has 524289 bytes"
                ):
                    await memory.append(Turn("big", "q", large))
                with pytest.raises(MemoryFailed, match="'big' is too large to be remembered: the result of 'Search'"):
                    await memory.append(Turn("big", "q", "a", (Step("", (ToolUse("c", "Search", "{}", large),)),)))
                with pytest.raises(MemoryFailed, match=r"'big' is too large to be remembered: it has 1048577 bytes"):
                    await memory.append(Turn("big", half, half, (Step("x", (ToolUse("c", "s", "", ""),)),)))
                with pytest.raises(MemoryFailed, match="'big' is too large"):
                    await memory.replace([turn(2), Turn("big", large, "a")])
                assert numbered(await memory.load()) == [1]

        asyncio.run(main())

    def test_a_superseded_attempt_writes_nothing(self) -> None:
        async def main() -> None:
            async with self.backend() as backend:
                if not backend.fences:
                    return  # nobody else could take it over
                memory = await backend.open()
                await memory.append(turn(1))
                await backend.supersede()
                for write in (
                    memory.append(turn(2)),
                    memory.append(turn(1)),
                    memory.replace([turn(3)]),
                    memory.clear(),
                ):
                    with pytest.raises(Fenced):
                        await write
                assert numbered(await memory.load()) == [1]

        asyncio.run(main())

    @asynccontextmanager
    async def workers(self) -> AsyncIterator[list[Backend]]:
        """Five of them with connections of their own: with four executions each, 20 at once."""
        async with AsyncExitStack() as stack:
            backends = [await stack.enter_async_context(self.backend()) for _ in range(5)]
            for backend in backends[1:]:
                backend.join(backends[0])
            yield backends

    def test_turns_of_many_writers_never_mix(self) -> None:
        async def main() -> None:
            async with self.workers() as backends:

                async def write(worker: int) -> None:
                    memory = await backends[worker % 5].open(window=200)
                    for number in range(5):
                        await memory.append(turn(worker * 5 + number, TOOLS if number % 2 else ()))

                await asyncio.gather(*map(write, range(20)))
                turns = await (await backends[0].open(window=200)).load()
                assert sorted(numbered(turns)) == list(range(100))
                for worker in range(20):  # each writer's own turns are in its order
                    assert [n for n in numbered(turns) if n // 5 == worker] == list(range(worker * 5, worker * 5 + 5))
                for one, number in zip(turns, numbered(turns), strict=True):
                    assert (one.user, one.answer) == (f"question {number} ✓", f"answer {number}")
                    assert len(one.steps) == (number % 5) % 2
                strict.check(turns)

        asyncio.run(main())

    def test_a_thousand_sessions_at_once(self) -> None:
        async def main() -> None:
            async with self.workers() as backends:
                busy = asyncio.Semaphore(20)

                async def talk(number: int) -> None:
                    for offset in range(2):  # the second turn by another worker
                        async with busy:
                            memory = await backends[(number + offset) % 5].open(f"s{number}")
                            await memory.append(turn(2 * number + offset))

                await asyncio.gather(*map(talk, range(1000)))
                for number in range(1000):
                    memory = await backends[number % 5].open(f"s{number}")
                    assert numbered(await memory.load()) == [2 * number, 2 * number + 1]

        asyncio.run(main())
