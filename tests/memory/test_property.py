"""Any sequence of turns, with and without tools, any window, crashes and concurrent writers: what is loaded is what was
said, in order, whole and once, and never more than the window."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from convoq.contract.memory import Memory, Step, ToolUse, Turn
from convoq.ids import new_execution_id
from tests.memory import strict
from tests.memory.backends import (
    Backend,
    LocalBackend,
    MongoBackend,
    N8nListBackend,
    OtherRedisBackend,
    PostgresBackend,
    RedisBackend,
    other_server,
    own_redis,
)
from tests.memory.test_memories import redis_fields

TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20)
NAMES = st.from_regex(r"[A-Za-z0-9_-]{1,12}", fullmatch=True)
VALUES = st.none() | st.booleans() | st.integers(-(2**40), 2**40) | TEXT | st.lists(TEXT, max_size=2)
ARGUMENTS = st.dictionaries(TEXT, VALUES, max_size=3).map(
    lambda found: dict(sorted(found.items(), key=lambda one: (len(one[0].encode()), one[0].encode())))
)
"""In the order in which PostgreSQL's jsonb keeps the keys of an object."""
CALLS = st.lists(st.tuples(NAMES, ARGUMENTS, TEXT, st.booleans()), min_size=1, max_size=3)
STEPS = st.lists(st.tuples(TEXT, CALLS), max_size=3)


@dataclass(frozen=True)
class Said:
    """A turn before it has ids."""

    user: str
    answer: str
    steps: Sequence[tuple[str, Sequence[tuple[str, dict[str, Any], str, bool]]]]
    cut_off: bool

    def turn(self, number: int) -> Turn:
        steps = tuple(
            Step(
                text,
                tuple(
                    ToolUse(f"c{number}_{i}_{j}", name, msgspec.json.encode(arguments).decode(), result, failed)
                    for j, (name, arguments, result, failed) in enumerate(calls)
                ),
            )
            for i, (text, calls) in enumerate(self.steps)
        )
        answer = self.answer if self.cut_off else self.answer or "-"
        return Turn(f"x{number}:Agent:0:0", self.user, answer, steps, number + 0.5, number + 0.75, self.cut_off)


SAID = st.builds(Said, TEXT.filter(bool), TEXT, STEPS, st.booleans())
ACTIONS = st.lists(
    st.one_of(
        st.tuples(st.just("say"), SAID),
        st.tuples(st.just("again"), st.integers(0, 3)),
        st.tuples(st.just("crash"), SAID, st.integers(0, 12)),
        st.tuples(st.just("together"), st.lists(SAID, min_size=2, max_size=4)),
        st.tuples(st.just("replace"), st.integers(0, 4)),
        st.tuples(st.just("clear")),
    ),
    max_size=10,
)


class PropertyContract:
    examples = 60

    def backend(self) -> AbstractAsyncContextManager[Backend]:
        raise NotImplementedError

    def test_what_is_loaded_is_what_was_said(self) -> None:
        with asyncio.Runner() as runner:
            opened = self.backend()
            backend = runner.run(opened.__aenter__())

            @settings(max_examples=self.examples, deadline=None, suppress_health_check=list(HealthCheck))
            @given(st.integers(1, 6), ACTIONS)
            def check(window: int, actions: Sequence[Any]) -> None:
                runner.run(follow(backend, window, actions))

            try:
                check()
            finally:
                runner.run(opened.__aexit__(None, None, None))


async def follow(backend: Backend, window: int, actions: Sequence[Any]) -> None:
    session = new_execution_id()
    known: list[Turn] = []
    number = 0

    async def memory() -> Memory:
        return await backend.open(session, window=window)

    for action in actions:
        match action:
            case ("say", said):
                known.append(said.turn(number := number + 1))
                await (await memory()).append(known[-1])
            case ("again", back) if known:
                await (await memory()).append(known[-1 - min(back, len(known) - 1, window - 1)])
            case ("crash", said, steps):
                known.append(said.turn(number := number + 1))
                await crashed((await memory()).append(known[-1]), steps)
                await (await memory()).append(known[-1])
            case ("together", all_said):
                turns = [said.turn(number := number + 1) for said in all_said]
                await asyncio.gather(*[(await memory()).append(turn) for turn in turns])
                known = adopted(known, turns, list(await (await memory()).load()), window)
            case ("replace", count):
                known = known[len(known) - min(count, len(known)) :]
                await (await memory()).replace(known)
            case ("clear",):
                known = []
                await (await memory()).clear()
        loaded = await (await memory()).load()
        assert list(loaded) == known[-window:]
        strict.check(loaded)


async def crashed(writing: Any, steps: int) -> None:
    """Begin to write and be gone after so many steps of the event loop."""
    task = asyncio.ensure_future(writing)
    for _ in range(steps):
        await asyncio.sleep(0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def adopted(known: list[Turn], written: list[Turn], loaded: list[Turn], window: int) -> list[Turn]:
    """What must be there after some wrote at the same time: the order among those is theirs."""
    assert len(loaded) == min(window, len(known) + len(written))
    fresh = [turn for turn in loaded if turn in written]
    assert len({turn.id for turn in fresh}) == len(fresh) == min(window, len(written))
    older = loaded[: len(loaded) - len(fresh)]
    assert older == known[len(known) - len(older) :]
    return [*older, *fresh]


class TestLocal(PropertyContract):
    def backend(self) -> AbstractAsyncContextManager[Backend]:
        return Opened(LocalBackend())


class Opened(AbstractAsyncContextManager[Backend]):
    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    async def __aenter__(self) -> Backend:
        return self._backend

    async def __aexit__(self, *exc: object) -> None:
        pass


class OnRedis(PropertyContract):
    @pytest.fixture(autouse=True)
    def _server(self, redis_url: str) -> None:
        self.redis_url = redis_url


class TestRedis(OnRedis):
    def backend(self) -> AbstractAsyncContextManager[RedisBackend]:
        return own_redis(self.redis_url)


class TestN8nList(OnRedis):
    def backend(self) -> AbstractAsyncContextManager[RedisBackend]:
        return own_redis(self.redis_url, N8nListBackend)


class TestOtherRedis(OnRedis):
    def backend(self) -> AbstractAsyncContextManager[OtherRedisBackend]:
        return other_server(self.redis_url, redis_fields(self.redis_url))


class TestPostgres(OnRedis):
    @pytest.fixture(autouse=True)
    def _postgres(self, postgres_fields: dict[str, Any]) -> None:
        self.fields = postgres_fields

    def backend(self) -> AbstractAsyncContextManager[OtherRedisBackend]:
        return other_server(self.redis_url, self.fields, PostgresBackend)


class TestMongo(OnRedis):
    @pytest.fixture(autouse=True)
    def _mongo(self, mongo_fields: dict[str, Any]) -> None:
        self.fields = mongo_fields

    def backend(self) -> AbstractAsyncContextManager[OtherRedisBackend]:
        return other_server(self.redis_url, self.fields, MongoBackend)
