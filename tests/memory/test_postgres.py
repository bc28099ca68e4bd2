"""PostgreSQL as people have it: behind a pooler, in tables of their own making."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any
from uuid import uuid4

import pytest

from convoq.contract.memory import Turn
from convoq.errors import MemoryFailed
from convoq.ids import new_execution_id
from convoq.memory.claims import Claims
from convoq.memory.pools import Pools
from convoq.memory.postgres import PostgresMemory
from tests.memory.backends import execution
from tests.memory.contract import TOOLS, numbered, turn
from tests.pgbouncer import pgbouncer

N8N = "id serial primary key, session_id varchar(255) not null, message jsonb not null"


@pytest.fixture(scope="module")
def pooled_fields(postgres_fields: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The fields of a credential for PgBouncer in transaction mode."""
    with pgbouncer(postgres_fields) as fields:
        yield fields


async def running() -> None:
    """Nobody takes these executions over."""


async def opened(pools: Pools, fields: dict[str, Any], table: str, session: str, window: int = 5) -> PostgresMemory:
    claims = Claims(execution(new_execution_id()), running, None)
    return PostgresMemory(await pools.postgres(fields, table), session, window=window, claims=claims)


@asynccontextmanager
async def table(fields: dict[str, Any], columns: str) -> AsyncIterator[tuple[str, Any, Pools]]:
    """A table of these columns, a connection pool to look at it, and the pools of a worker."""
    pools, name = Pools(), f"t_{uuid4().hex[:12]}"
    pool = (await pools.postgres(fields, name)).pool.connections
    try:
        await pool.execute(f"CREATE TABLE {name} ({columns})")
        yield name, pool, pools
        await pool.execute(f"DROP TABLE {name}")
    finally:
        await pools.close()


def test_behind_a_pooler_in_transaction_mode(pooled_fields: dict[str, Any]) -> None:
    """40 sessions of three turns at once, by four workers, over five connections to the server."""

    async def main() -> None:
        workers = [Pools() for _ in range(4)]

        async def talk(number: int) -> None:
            for offset in range(3):
                memory = await opened(workers[(number + offset) % 4], pooled_fields, "pooled", f"s{number}")
                assert numbered(await memory.load()) == list(range(offset))
                await memory.append(turn(offset, TOOLS))

        await asyncio.gather(*map(talk, range(40)))
        memory = await opened(workers[0], pooled_fields, "pooled", "s7")
        await memory.replace([turn(8)])
        assert list(await memory.load()) == [turn(8)]
        await memory.clear()
        assert list(await memory.load()) == []
        for pools in workers:
            await pools.close()

    asyncio.run(main())


UUID = str(uuid4())


@pytest.mark.parametrize(
    ("columns", "session"),
    [
        pytest.param("id serial, session_id uuid not null, message jsonb not null", UUID, id="uuid"),
        pytest.param("id bigserial, session_id text not null, message json not null", "Ünï" * 200, id="text, json"),
        pytest.param("id serial, session_id varchar(9) not null, message jsonb", "é" * 9, id="varchar"),
        pytest.param("id bigint generated always as identity, session_id bigint, message jsonb", "-42", id="bigint"),
        pytest.param(
            f"{N8N}, created_at timestamptz not null default now(), tenant text default 'a' not null, note text, "
            "size int generated always as (octet_length(message::text)) stored",
            "s",
            id="further columns",
        ),
    ],
)
def test_columns(postgres_fields: dict[str, Any], columns: str, session: str) -> None:
    async def main() -> None:
        async with table(postgres_fields, columns) as (name, pool, pools):
            memory = await opened(pools, postgres_fields, name, session)
            assert list(await memory.load()) == []
            await memory.append(turn(1, TOOLS))
            await memory.append(turn(1, TOOLS))
            await memory.append(Turn("x2", "a\0b", "c"))
            loaded = await memory.load()
            assert [loaded[0], loaded[1].user] == [turn(1, TOOLS), "a\ufffdb"]
            await memory.replace([turn(3)])
            assert list(await memory.load()) == [turn(3)]
            assert await pool.fetchval(f"SELECT count(*) FROM {name} WHERE session_id::text = $1", session) == 2
            await memory.clear()
            assert list(await memory.load()) == []

    asyncio.run(main())


@pytest.mark.parametrize(
    ("column", "session", "said"),
    [
        ("uuid", "a__My_Memory", 'is of type uuid: invalid input syntax for type uuid: "a__My_Memory". With'),
        ("bigint", "x", "is of type bigint: invalid input syntax"),
        ("varchar(5)", "123456", "is of type character varying: it has 6 characters of at most 5"),
        ("text", "a\0b", "is of type text: .*0x00"),
    ],
)
def test_a_session_that_the_column_cannot_take(
    postgres_fields: dict[str, Any], column: str, session: str, said: str
) -> None:
    async def main() -> None:
        columns = f"id serial, session_id {column} not null, message jsonb not null"
        async with table(postgres_fields, columns) as (name, _, pools):
            memory = await opened(pools, postgres_fields, name, session)
            with pytest.raises(MemoryFailed, match=f"does not fit column session_id of {name}, which {said}"):
                await memory.load()  # the agent's first step

    asyncio.run(main())


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ("id serial, session_id text, text text", "it has no column 'message'"),
        ("id serial, session_id text, message text", "column 'message' is of type text, not json or jsonb"),
        ("id uuid, session_id text, message jsonb", "column 'id' is of type uuid, which does not tell the order"),
        ("id int primary key, session_id text, message jsonb", "column 'id' must have a value and has no default"),
        (f"{N8N}, tenant int not null", "column 'tenant' must have a value and has no default"),
    ],
)
def test_a_table_that_cannot_hold_a_history(postgres_fields: dict[str, Any], columns: str, said: str) -> None:
    async def main() -> None:
        async with table(postgres_fields, columns) as (name, _, pools):
            memory = await opened(pools, postgres_fields, name, "s")
            with pytest.raises(MemoryFailed, match=f"table {name} cannot hold a chat history: {said}"):
                await memory.load()

    asyncio.run(main())


def test_without_the_right_to_make_an_index(postgres_fields: dict[str, Any]) -> None:
    """A turn is kept once all the same, by who writes it again."""

    async def main() -> None:
        async with table(postgres_fields, N8N) as (name, pool, pools):
            role = f"role_{name}"
            await pool.execute(
                f"CREATE ROLE {role} LOGIN; GRANT SELECT, INSERT, DELETE ON {name} TO {role}; "
                f"GRANT USAGE ON SEQUENCE {name}_id_seq TO {role}"
            )
            memory = await opened(pools, {**postgres_fields, "user": role}, name, "s")
            for number in (1, 2, 1):
                await memory.append(turn(number))
            assert list(await memory.load()) == [turn(1), turn(2)]
            indexes = await pool.fetch("SELECT indexname FROM pg_indexes WHERE tablename = $1", name)
            assert [row[0] for row in indexes] == [f"{name}_pkey"]
            await pool.execute(f"DROP OWNED BY {role}; DROP ROLE {role}")

    asyncio.run(main())


def test_a_table_that_was_taken_away_is_made_again(postgres_fields: dict[str, Any]) -> None:
    async def main() -> None:
        async with table(postgres_fields, N8N) as (name, pool, pools):
            memory = await opened(pools, postgres_fields, name, "s")
            await memory.append(turn(1))
            await pool.execute(f"DROP TABLE {name}, {name}_convoq_claims")
            assert list(await memory.load()) == []
            await memory.append(turn(2))
            await pool.execute(f"DROP TABLE {name}; CREATE TABLE {name} (id serial, session_id uuid, message json)")
            with pytest.raises(MemoryFailed, match="operator does not exist: uuid = character varying"):
                await memory.load()
            with pytest.raises(MemoryFailed, match="does not fit column session_id"):
                await memory.load()

    asyncio.run(main())


def test_an_index_does_not_wait_for_others(postgres_fields: dict[str, Any]) -> None:
    """Somebody's long transaction holds the table: turns are written, and nobody queues up behind an index."""

    async def main() -> None:
        async with table(postgres_fields, N8N) as (name, pool, pools):
            memory = await opened(pools, postgres_fields, name, "s")
            async with pool.acquire() as connection, connection.transaction():
                await connection.execute(f"INSERT INTO {name} (session_id, message) VALUES ('other', '{{}}')")
                await memory.append(turn(1))
            assert list(await memory.load()) == [turn(1)]

    asyncio.run(main())
