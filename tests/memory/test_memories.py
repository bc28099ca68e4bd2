"""One contract, every backend, on real servers; and what only one of them has."""

from __future__ import annotations

import asyncio
import gc
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import datetime
from typing import Any, cast

import msgspec
import pytest

from convoq import keys
from convoq.contract.memory import MAX_SESSION_BYTES, History, Memory, Step, ToolUse, Turn
from convoq.errors import Fenced, MemoryFailed, NodeFailed
from convoq.memory.local import LocalMemories
from convoq.memory.n8n_list import N8nListMemory
from convoq.memory.pools import Pools
from convoq.memory.postgres import PostgresMemory
from convoq.memory.redis_list import RedisListMemory
from convoq.redis import Argument, Pipe, Script
from tests.memory.backends import (
    Backend,
    LocalBackend,
    MongoBackend,
    N8nListBackend,
    OtherRedisBackend,
    OtherTrimmedBackend,
    PostgresBackend,
    RedisBackend,
    execution,
    other_server,
    own_redis,
)
from tests.memory.contract import TOOLS, MemoryContract, numbered, turn


def redis_fields(url: str) -> dict[str, Any]:
    host, _, port = url.removeprefix("redis://").split("/")[0].rpartition(":")
    return {"host": host, "port": int(port), "database": 0}


class OnRedis(MemoryContract):
    @pytest.fixture(autouse=True)
    def _server(self, redis_url: str) -> None:
        self.redis_url = redis_url


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


class TestRedis(OnRedis):
    def backend(self) -> AbstractAsyncContextManager[RedisBackend]:
        return own_redis(self.redis_url)

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
        [{"status": "running", "token": "t2"}, {"status": "success", "token": "t1"}, {}],
        ids=["another attempt", "ended", "no record"],
    )
    def test_an_attempt_that_was_taken_over_writes_nothing(self, record: dict[str, str]) -> None:
        async def main() -> None:
            async with self.backend() as backend:
                memory = await backend.open()
                await memory.append(turn(1))
                await backend.pipe.command("DEL", backend.record)
                for name, value in record.items():
                    await backend.pipe.command("HSET", backend.record, name, value)
                with pytest.raises(Fenced):
                    await memory.append(turn(2))
                assert numbered(await memory.load()) == [1]
                await backend.pipe.command("DEL", backend.record)

        asyncio.run(main())

    def test_a_remembered_turn_cannot_be_run_again(self) -> None:
        async def main() -> None:
            async with self.backend() as backend:
                await (await backend.open()).append(turn(1))
                assert await backend.pipe.command("HGET", backend.record, "effects") == b"1"

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
                loaded = await memory.load()
                assert isinstance(loaded, History)
                assert numbered(loaded) == [2, 4]
                assert loaded.notes == ("5 stored elements are no whole turn: left out",)

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

    def test_a_session_too_large_takes_no_more(self) -> None:
        async def main() -> None:
            async with self.backend() as backend:
                memory = await backend.open(window=1000)
                text = "x" * (512 << 10)
                for number in range(MAX_SESSION_BYTES >> 20):
                    written = Turn(f"x{number}:", text, text[:-100_000])
                    await memory.append(written)
                with pytest.raises(MemoryFailed, match=r"larger than 33554432 bytes: use a smaller window"):
                    for number in range(100, 110):
                        await memory.append(Turn(f"x{number}:", text, text))
                assert numbered(await memory.load())[:32] == list(range(32))
                await memory.clear()

        asyncio.run(main())

    def test_one_round_trip_each_way(self, monkeypatch: pytest.MonkeyPatch) -> None:
        async def main() -> None:
            async with self.backend() as backend:
                memory = await backend.open()
                sent = spy(monkeypatch)
                await memory.load()
                await memory.append(turn(1))
                assert sent == ["LRANGE", "EVALSHA"]

        asyncio.run(main())


def spy(monkeypatch: pytest.MonkeyPatch) -> list[Argument]:
    """The commands that a `Pipe` sends from now on."""
    sent: list[Argument] = []
    command, run = Pipe.command, Pipe.run

    async def spy_command(pipe: Pipe, *arguments: Argument) -> Any:
        sent.append(arguments[0])
        return await command(pipe, *arguments)

    async def spy_run(pipe: Pipe, script: Script, *more: Any) -> Any:
        sent.append("EVALSHA")
        return await run(pipe, script, *more)

    monkeypatch.setattr(Pipe, "command", spy_command)
    monkeypatch.setattr(Pipe, "run", spy_run)
    return sent


class TestN8nList(OnRedis):
    def backend(self) -> AbstractAsyncContextManager[RedisBackend]:
        return own_redis(self.redis_url, N8nListBackend)

    def test_one_round_trip_each_way(self, monkeypatch: pytest.MonkeyPatch) -> None:
        async def main() -> None:
            async with self.backend() as backend:
                memory = await backend.open()
                sent = spy(monkeypatch)
                await memory.load()
                await memory.append(turn(1, TOOLS))
                assert sent == ["EVALSHA", "EVALSHA"]

        asyncio.run(main())

    def test_without_a_time_to_live_it_stays(self) -> None:
        async def main() -> None:
            async with self.backend() as backend:
                await (await backend.open(ttl_s=0)).append(turn(1))
                assert await backend.pipe.command("TTL", backend.key("s", "Memory")) == -1
                await (await backend.open(ttl_s=60)).append(turn(2))
                assert await backend.pipe.command("TTL", backend.key("s", "Memory")) == 60

        asyncio.run(main())

    def test_only_the_messages_of_the_window_are_read(self) -> None:
        async def main() -> None:
            async with self.backend() as backend:
                memory = await backend.open(window=3)
                for number in range(250):
                    await memory.append(turn(number, TOOLS if number % 3 else ()))
                assert numbered(await memory.load()) == [247, 248, 249]
                assert numbered(await (await backend.open(window=200)).load()) == list(range(50, 250))

        asyncio.run(main())

    def test_a_history_too_large_is_refused(self) -> None:
        async def main() -> None:
            async with self.backend() as backend:
                key = backend.key("s", "Memory")
                message = msgspec.json.encode({"type": "human", "data": {"content": "x" * (8 << 20)}})
                for _ in range(5):
                    await backend.pipe.command("LPUSH", key, message)
                assert len(await (await backend.open(window=3)).load()) == 1  # three questions in a row
                with pytest.raises(MemoryFailed, match="larger than 33554432 bytes"):
                    await (await backend.open(window=5)).load()
                with pytest.raises(MemoryFailed, match="larger than 33554432 bytes"):
                    await (await backend.open(window=1)).append(turn(1))
                await backend.pipe.command("DEL", key)

        asyncio.run(main())


class TestOtherRedis(OnRedis):
    def backend(self) -> AbstractAsyncContextManager[OtherRedisBackend]:
        return other_server(self.redis_url, redis_fields(self.redis_url))

    def test_an_execution_that_writes_there_is_not_run_again(self) -> None:
        async def main() -> None:
            async with self.backend() as backend:
                await (await backend.open()).append(turn(1))
                assert await backend.pipe.command("HGET", backend.record, "effects") == b"1"

        asyncio.run(main())

    def test_a_server_that_is_not_there(self) -> None:
        async def main() -> None:
            pools = Pools(patience_s=0)
            for memory in (
                N8nListMemory(pools.redis({"port": 1}), "k", window=1, ttl_s=0),
                RedisListMemory(pools.redis({"port": 1, "password": "hush"}), "k", window=1, ttl_s=0),
            ):
                with pytest.raises(MemoryFailed, match="cannot read the memory 'k'") as caught:
                    await memory.load()
                assert "hush" not in str(caught.value)
                with pytest.raises(MemoryFailed, match="cannot write the memory 'k'"):
                    await memory.append(turn(1))
            await pools.close()

        asyncio.run(main())

    def test_a_user_who_may_use_other_keys_only(self) -> None:
        async def main() -> None:
            async with self.backend() as backend:
                await backend.pipe.command("ACL", "SETUSER", "few", "on", ">pw", "~chat:*", "+@all")
                server = backend.pools.redis({**backend.fields, "user": "few", "password": "pw"})
                key = f"chat:{backend.workflow}"
                memory = N8nListMemory(server, key, window=5, ttl_s=60, claims=backend.claims)
                await memory.load()
                await memory.append(turn(1))
                assert numbered(await memory.load()) == [1]
                await backend.supersede()
                with pytest.raises(Fenced):
                    await memory.append(turn(2))
                await backend.pipe.command("ACL", "DELUSER", "few")

        asyncio.run(main())


class TestOtherRedisTrimmed(OnRedis):
    def backend(self) -> AbstractAsyncContextManager[OtherRedisBackend]:
        return other_server(self.redis_url, redis_fields(self.redis_url), OtherTrimmedBackend)


class TestPostgres(OnRedis):
    @pytest.fixture(autouse=True)
    def _postgres(self, postgres_fields: dict[str, Any]) -> None:
        self.fields = postgres_fields

    def backend(self) -> AbstractAsyncContextManager[OtherRedisBackend]:
        return other_server(self.redis_url, self.fields, PostgresBackend)

    def test_a_turn_is_three_statements(self, monkeypatch: pytest.MonkeyPatch) -> None:
        async def main() -> None:
            import asyncpg

            async with self.backend() as backend:
                memory = await backend.open()
                await memory.append(turn(1))
                sent: list[str] = []
                async with (await self._pool(backend)).acquire() as connection:
                    inner = cast(Any, connection)._con
                assert isinstance(inner, asyncpg.Connection)
                inner.add_query_logger(lambda record: sent.append(record.query))
                await memory.load()
                await memory.append(turn(2, TOOLS))
                assert len(sent) == 3, sent  # claim, read, write

        asyncio.run(main())

    def test_nothing_is_made_twice_and_what_is_there_stays(self) -> None:
        async def main() -> None:
            async with self.backend() as backend:
                pool = await self._pool(backend)
                await pool.execute(
                    "CREATE TABLE of_n8n "
                    "(id SERIAL PRIMARY KEY, session_id VARCHAR(255) NOT NULL, message JSONB NOT NULL)"
                )
                await pool.execute(
                    "INSERT INTO of_n8n (session_id, message) VALUES ('s', $1), ('s', $2)",
                    '{"type":"human","content":"hi","additional_kwargs":{},"response_metadata":{}}',
                    '{"type":"ai","content":"ho","tool_calls":[],"additional_kwargs":{},"response_metadata":{}}',
                )
                others = [Pools() for _ in range(4)]
                tables = [await pools.postgres(self.fields, "of_n8n") for pools in others]
                memories = [PostgresMemory(table, "s", window=5, claims=backend.claims) for table in tables]
                await asyncio.gather(*(memory.append(turn(number)) for number, memory in enumerate(memories)))
                loaded = await memories[0].load()
                assert (loaded[0].user, loaded[0].answer) == ("hi", "ho")
                assert sorted(numbered(loaded[1:])) == [0, 1, 2, 3]
                indexes = await pool.fetch("SELECT indexname FROM pg_indexes WHERE tablename = 'of_n8n' ORDER BY 1")
                assert [row[0] for row in indexes] == ["of_n8n_convoq_session", "of_n8n_convoq_turn", "of_n8n_pkey"]
                async with pool.acquire() as connection, connection.transaction():
                    await connection.execute("SET LOCAL enable_seqscan = off; SET LOCAL enable_sort = off")
                    plan = await connection.fetch(
                        "EXPLAIN SELECT message FROM of_n8n WHERE session_id = 's' ORDER BY id DESC LIMIT 1"
                    )
                assert "of_n8n_convoq_session" in str(plan)
                for pools in others:
                    await pools.close()
                await pool.execute("DROP TABLE of_n8n")

        asyncio.run(main())

    def test_one_pool_for_all_who_name_the_same_server(self) -> None:
        async def main() -> None:
            async with self.backend() as backend:
                pools = backend.pools
                one, two = await asyncio.gather(
                    pools.postgres(self.fields, "a"), pools.postgres({**self.fields, "sshTunnel": False}, "b")
                )
                assert one.pool is two.pool
                assert await pools.postgres(self.fields, "a") is one
                other = await pools.postgres({**self.fields, "database": "template1"}, "a")
                assert other.pool is not one.pool

        asyncio.run(main())

    def test_a_nul_character_is_replaced(self) -> None:
        async def main() -> None:
            async with self.backend() as backend:
                memory = await backend.open()
                await memory.append(Turn("x", "a\0b\\u0000c\\\0", "ok"))
                (loaded,) = await memory.load()
                assert loaded.user == "a\ufffdb\\u0000c\\\ufffd"

        asyncio.run(main())

    @pytest.mark.parametrize("name", ["a b", "a;b", "", "x--", "a.b.c", 'a"', "1a", "t; DROP TABLE x"])
    def test_a_table_name_that_is_none(self, name: str) -> None:
        async def main() -> None:
            async with self.backend() as backend:
                with pytest.raises(NodeFailed, match="parameter 'tableName'"):
                    await backend.pools.postgres(self.fields, name)

        asyncio.run(main())

    @pytest.mark.parametrize("name", ["public.Mixed_1", '"Quoted Name"', 'public."x-y"'])
    def test_table_names(self, name: str) -> None:
        async def main() -> None:
            async with self.backend() as backend:
                table = await backend.pools.postgres(self.fields, name)
                memory = PostgresMemory(table, "s", window=5, claims=backend.claims)
                await memory.append(turn(1))
                assert numbered(await memory.load()) == [1]
                await (await self._pool(backend)).execute(f"DROP TABLE {name}")

        asyncio.run(main())

    def test_failures_say_what_and_where(self) -> None:
        async def main() -> None:
            async with self.backend() as backend:
                with pytest.raises(MemoryFailed, match="it has 303 characters of at most 255"):
                    await (await backend.open("x" * 255)).load()  # the others are the test's
                for wrong, said in (
                    ({"port": 1}, "cannot read the memory of session 's' in t: "),
                    ({"database": "nope"}, 'cannot read the memory .* database "nope" does not exist'),
                ):
                    table = await backend.pools.postgres({**self.fields, "password": "hush", **wrong}, "t")
                    memory = PostgresMemory(table, "s", window=5, claims=backend.claims)
                    with pytest.raises(MemoryFailed, match=said) as caught:
                        await memory.load()
                    assert "hush" not in str(caught.value)
                with pytest.raises(NodeFailed, match=r"credential of type 'postgres': port: .* ssl: ") as refused:
                    await backend.pools.postgres({"port": "hush", "ssl": "hush"}, "t")
                assert "hush" not in str(refused.value)

        asyncio.run(main())

    def test_a_history_too_large_is_refused(self) -> None:
        async def main() -> None:
            async with self.backend() as backend:
                memory = await backend.open(window=2)
                await memory.append(turn(1))
                await (await self._pool(backend)).execute(
                    "INSERT INTO n8n_chat_histories (session_id, message) "
                    "SELECT $1, jsonb_build_object('type', 'human', 'content', repeat('x', 9000000)) "
                    "FROM generate_series(1, 4)",
                    backend.key("s", "Memory"),
                )
                assert len(await memory.load()) == 1
                with pytest.raises(MemoryFailed, match=r"larger than 33554432 bytes: use a smaller window"):
                    await (await backend.open(window=5)).load()
                await memory.clear()

        asyncio.run(main())

    async def _pool(self, backend: OtherRedisBackend) -> Any:
        return (await backend.pools.postgres(self.fields, "n8n_chat_histories")).pool.connections


class TestMongo(OnRedis):
    @pytest.fixture(autouse=True)
    def _mongo(self, mongo_fields: dict[str, Any]) -> None:
        self.fields = mongo_fields

    def backend(self) -> AbstractAsyncContextManager[OtherRedisBackend]:
        return other_server(self.redis_url, self.fields, MongoBackend)

    def test_what_bson_has_no_place_for(self) -> None:
        async def main() -> None:
            arguments = {"$a.b": {"": [1.5, 9007199254740993, 10**400]}, "n\0": None}
            use = ToolUse("c", "t", json.dumps(arguments), "\0")
            async with self.backend() as backend:
                memory = await backend.open()
                await memory.append(Turn("x1", "q", "a", (Step("", (use,)),)))
                (loaded,) = await memory.load()
                kept = loaded.steps[0].calls[0]
                assert json.loads(kept.arguments) == {
                    "$a.b": {"": [1.5, 9007199254740993, str(10**400)]},
                    "n\ufffd": None,
                }
                assert kept.result == "\0"

        asyncio.run(main())

    def test_what_others_stored_in_types_of_bson(self) -> None:
        async def main() -> None:
            from bson import Decimal128, Int64, ObjectId

            async with self.backend() as backend:
                memory = await backend.open()
                await memory.append(turn(1, TOOLS))
                collection = await backend.pools.mongo(self.fields, "convoq_test", "n8n_chat_histories").open()
                args = {"a": Int64(1), "b": Decimal128("1.5"), "c": ObjectId("0" * 24), "d": datetime(2026, 1, 2)}
                session = {"sessionId": backend.key("s", "Memory")}
                await collection.update_one(session, {"$set": {"messages.1.data.tool_calls.0.args": args}})
                (loaded,) = await memory.load()
                assert json.loads(loaded.steps[0].calls[0].arguments) == {
                    "a": 1, "b": "1.5", "c": "0" * 24, "d": "2026-01-02T00:00:00",
                }  # fmt: skip

        asyncio.run(main())

    def test_a_session_over_16_mb_takes_no_more(self) -> None:
        async def main() -> None:
            async with self.backend() as backend:
                memory = await backend.open(window=2)
                text = "x" * (500 << 10)
                with pytest.raises(MemoryFailed, match="larger than 16 MB, which is all MongoDB keeps of a session"):
                    for number in range(20):
                        await memory.append(Turn(f"x{number}:", text, text))
                assert numbered(await memory.load()) == [14, 15]
                await memory.clear()

        asyncio.run(main())


class TestMongoWithoutServer:
    @pytest.mark.filterwarnings("ignore:.*socket:pytest.PytestUnraisableExceptionWarning")
    def test_a_server_that_is_not_there(self, monkeypatch: pytest.MonkeyPatch) -> None:
        async def main() -> None:
            from convoq.memory import mongo

            monkeypatch.setattr(mongo, "SELECT_S", 0.05)
            pools = Pools(patience_s=0)
            fields: Mapping[str, Any] = {"host": "127.0.0.1", "port": 1, "user": "u", "password": "hush"}

            memory: Memory = mongo.MongoMemory(pools.mongo(fields, "db", "c"), "s", window=5, claims=None)
            with pytest.raises(MemoryFailed, match=r"cannot read the memory of session 's' in db\.c") as caught:
                await memory.load()
            assert "hush" not in str(caught.value)
            with pytest.raises(NodeFailed, match="no MongoDB database"):
                pools.mongo(fields, "", "c")
            with pytest.raises(NodeFailed, match="credential of type 'mongoDb'"):
                pools.mongo({"connectionString": "mongodb://%%hush"}, "db", "c")
            await pools.close()

        asyncio.run(main())
        gc.collect()  # pymongo's monitor forgets the socket of a refused connection: let it show here, not later
