"""n8n's table of chat histories in PostgreSQL. Needs asyncpg (extra `postgres`).

    id serial, session_id varchar(255), message jsonb {"type", "content", …}      one row a message

Made if missing, with two indexes that n8n does not make: (session_id, id) to read a session without reading all, and a
unique one over (session_id, turn id), which lets a turn in once.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import structlog

from convoq.contract.memory import MAX_SESSION_BYTES, History, Turn, check_size, session_too_large
from convoq.errors import MemoryFailed, NodeFailed
from convoq.memory.n8n_messages import MARK, decode_message, encode_message, read_turns, stored_messages
from convoq.memory.redis_list import BeforeWrite
from convoq.memory.repair import sendable
from convoq.memory.servers import CONNECT_S, MAX_CONNECTIONS, REPLY_S, PostgresCredential

if TYPE_CHECKING:
    import asyncpg

log = structlog.get_logger()

MAX_SESSION_CHARS = 255
_NAME = re.compile(r'(?:[A-Za-z_]\w{0,62}|"[^"\0]{1,63}")(?:\.(?:[A-Za-z_]\w{0,62}|"[^"\0]{1,63}"))?', re.ASCII)
_NUL = re.compile(rb"((?<!\\)(?:\\\\)*)\\u0000")


async def connect(credential: PostgresCredential) -> asyncpg.Pool:
    try:
        import asyncpg
    except ImportError:
        raise NodeFailed("Postgres Chat Memory needs the extra 'postgres': pip install 'convoq[postgres]'") from None
    try:
        return await asyncpg.create_pool(
            host=credential.host,
            port=credential.port,
            database=credential.database,
            user=credential.user,
            password=credential.password or None,
            ssl=credential.ssl,
            min_size=0,
            max_size=MAX_CONNECTIONS,
            timeout=CONNECT_S,
            command_timeout=REPLY_S,
            reset=_nothing_to_reset,
            server_settings={"application_name": "convoq"},
        )
    except ValueError as error:
        raise NodeFailed(f"credential of type 'postgres': {error}") from None


async def _nothing_to_reset(connection: object) -> None:
    """What runs here leaves nothing behind in a session; asyncpg's own reset is one more round trip a call."""


class PostgresTable:
    """One table, for all sessions. `name` is put into SQL as it is, like n8n does: only what is a name may be one."""

    def __init__(self, pool: asyncpg.Pool, name: str) -> None:
        if not _NAME.fullmatch(name):
            raise NodeFailed(f"parameter 'tableName': {name[:100]!r} is no name of a table")
        self.name = name
        self._pool = pool
        self._ready = False
        self._lock = asyncio.Lock()

    async def fetch(self, query: str, *arguments: object) -> list[Any]:
        await self.prepare()
        return await self._pool.fetch(query, *arguments)

    async def prepare(self) -> None:
        """Make the table and its indexes where they are missing, once in this process."""
        if self._ready:
            return
        async with self._lock:
            if not self._ready:
                async with self._pool.acquire() as connection, connection.transaction():
                    # Two processes that make the same table at once would get in each other's way.
                    await connection.execute("SELECT pg_advisory_xact_lock(hashtextextended($1, 0))", self.name)
                    if await connection.fetchval("SELECT to_regclass($1) IS NULL", self.name):
                        await connection.execute(
                            f"CREATE TABLE {self.name} (id SERIAL PRIMARY KEY, "
                            "session_id VARCHAR(255) NOT NULL, message JSONB NOT NULL)"
                        )
                    await self._index(connection, "session", "INDEX", "session_id, id")
                    turn = f"(message #>> '{{additional_kwargs,{MARK},turn}}')"
                    await self._index(
                        connection, "turn", "UNIQUE INDEX", f"session_id, ({turn})", f"{turn} IS NOT NULL"
                    )
                self._ready = True

    async def _index(self, connection: Any, label: str, kind: str, columns: str, condition: str = "true") -> None:
        import asyncpg

        base = self.name.rsplit(".", 1)[-1].strip('"')
        name = f'"{base[:45]}_{MARK}_{label}"'
        try:
            async with connection.transaction():
                where = f" WHERE {condition}" if condition != "true" else ""
                await connection.execute(f"CREATE {kind} IF NOT EXISTS {name} ON {self.name} ({columns}){where}")
        except asyncpg.InsufficientPrivilegeError as error:
            log.warning("postgres memory works without an index", table=self.name, index=name, error=str(error))


class PostgresMemory:
    """One statement each way, which is one transaction. Turns of one session are written one after the other.

    n8n never trims, and nothing expires; `before_write` as in `convoq.memory.redis_list`.
    """

    def __init__(self, table: PostgresTable, session: str, *, window: int, before_write: BeforeWrite) -> None:
        if len(session) > MAX_SESSION_CHARS:
            raise NodeFailed(f"the session key has {len(session)} characters: n8n's table takes {MAX_SESSION_CHARS}")
        self.window = window
        self._table = table
        self._session = session
        self._before_write = before_write

    async def load(self) -> History:
        name = self._table.name
        rows = await self._run(
            "read",
            f"""
            WITH first AS (
                SELECT id FROM {name} WHERE session_id = $1 AND message->>'type' = 'human'
                ORDER BY id DESC OFFSET $2 LIMIT 1
            ), kept AS (
                SELECT id, message::text AS message FROM {name}
                WHERE session_id = $1 AND id >= coalesce((SELECT id FROM first), 0)
            )
            SELECT CASE WHEN sum(octet_length(message)) OVER () <= $3 THEN message END FROM kept ORDER BY id
            """,
            self._session,
            self.window - 1,
            MAX_SESSION_BYTES,
        )
        if rows and rows[0][0] is None:
            raise session_too_large(f"session {self._session!r} in {name}")
        turns, notes = read_turns(_nested(decode_message(row[0])) for row in rows)
        return sendable(turns[-self.window :], notes)

    async def append(self, turn: Turn) -> None:
        check_size(turn)
        first, *rest = _rows(turn)
        name = self._table.name
        await self._before_write()
        await self._run(
            "write",
            f"""
            WITH held AS MATERIALIZED (SELECT pg_advisory_xact_lock(hashtextextended($4 || '/' || $1, 0))),
            begun AS (
                INSERT INTO {name} (session_id, message) SELECT $1, $2::jsonb FROM held
                ON CONFLICT DO NOTHING RETURNING id
            )
            INSERT INTO {name} (session_id, message)
            SELECT $1, rest.message::jsonb FROM begun CROSS JOIN unnest($3::text[]) WITH ORDINALITY AS rest (message, n)
            ORDER BY rest.n
            """,
            self._session,
            first,
            rest,
            name,
        )

    async def replace(self, turns: Sequence[Turn]) -> None:
        check_size(*turns)
        name = self._table.name
        await self._before_write()
        # One statement sees the table as it was before it: the rows that it deletes are not those that it inserts.
        await self._run(
            "write",
            f"""
            WITH held AS MATERIALIZED (SELECT pg_advisory_xact_lock(hashtextextended($3 || '/' || $1, 0))),
            gone AS (DELETE FROM {name} USING held WHERE session_id = $1 RETURNING id)
            INSERT INTO {name} (session_id, message)
            SELECT $1, kept.message::jsonb FROM (SELECT count(*) FROM gone) AS done
            CROSS JOIN unnest($2::text[]) WITH ORDINALITY AS kept (message, n) ORDER BY kept.n
            """,
            self._session,
            [row for turn in turns for row in _rows(turn)],
            name,
        )

    async def clear(self) -> None:
        await self.replace(())

    async def _run(self, action: str, query: str, *arguments: object) -> list[Any]:
        import asyncpg

        try:
            return await self._table.fetch(query, *arguments)
        except (asyncpg.PostgresError, asyncpg.InterfaceError, OSError, TimeoutError) as error:
            self._fail(action, error)

    def _fail(self, action: str, error: Exception) -> NoReturn:
        where = f"session {self._session!r} in {self._table.name}"
        raise MemoryFailed(f"cannot {action} the memory of {where}: {error or type(error).__name__}") from error


def _rows(turn: Turn) -> list[str]:
    """n8n's `{...data, type}`. jsonb takes no NUL."""
    return [
        _NUL.sub(rb"\1\\ufffd", encode_message({**stored["data"], "type": stored["type"]})).decode()
        for stored in stored_messages(turn)
    ]


def _nested(message: object) -> object:
    if not isinstance(message, Mapping):
        return None
    return {"type": message.get("type"), "data": {name: value for name, value in message.items() if name != "type"}}
