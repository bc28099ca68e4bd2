"""The table that a Postgres memory lies in, as n8n makes it or as people have it. Needs asyncpg (extra `postgres`).

    id serial, session_id varchar(255), message jsonb {"type", "content", …}      one row a message

Made if missing, with two indexes that n8n does not make: (session_id, id) to read a session without reading all, and a
unique one over (session_id, turn id), which lets a turn in once. Beside it, TABLE_convoq_claims has the claims of those
who answer at the moment (`convoq.memory.claims`), unlogged: it may be emptied at any time.
"""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass
from typing import Any

import structlog

from convoq.errors import MemoryFailed, NodeFailed
from convoq.memory.n8n_messages import MARK
from convoq.memory.postgres_pool import PostgresPool

log = structlog.get_logger()

MAKE_S = 10
"""An index that takes longer, or has to wait for others, is left to people: meanwhile nobody could write."""
TURN = f"(message #>> '{{additional_kwargs,{MARK},turn}}')"
"""The id of the turn that a message begins, in SQL; null for all its other messages."""
_WORD = r'(?:[A-Za-z_]\w{0,62}|"[^"\0]{1,63}")'
_NAME = re.compile(rf"(?P<schema>{_WORD}\.)?(?P<table>{_WORD})", re.ASCII)

_COLUMNS = """
    SELECT a.attname AS name, coalesce(nullif(t.typbasetype, 0), t.oid)::regtype::text AS type,
        CASE WHEN t.typbasetype = 0 THEN a.atttypmod ELSE t.typtypmod END - 4 AS chars,
        a.attnotnull AND NOT a.atthasdef AND a.attidentity = '' AND a.attgenerated = '' AS needed
    FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid
    WHERE a.attrelid = to_regclass($1) AND a.attnum > 0 AND NOT a.attisdropped
"""
_CLAIMS = """(session_id text, claim text, at timestamptz NOT NULL DEFAULT now(), PRIMARY KEY (session_id, claim))"""


@dataclass(frozen=True, slots=True)
class Layout:
    """The types of the columns `session_id` and `message`; `session_chars` is how long a session's key may be. `claims`
    is the table of those, None where convoq may not make it: a write is then asked for before it, and not in it."""

    session: str
    session_chars: int | None
    message: str
    claims: str | None


class PostgresTable:
    """One table, for all sessions. `name` is put into SQL as it is, like n8n does: only what is a name may be one."""

    def __init__(self, pool: PostgresPool, name: str) -> None:
        if not (found := _NAME.fullmatch(name)):
            raise NodeFailed(f"parameter 'tableName': {name[:100]!r} is no name of a table")
        self.name = name
        self.pool = pool
        self._schema, self._base = found["schema"] or "", found["table"].strip('"')
        self._layout: Layout | None = None
        self._lock = asyncio.Lock()

    async def layout(self) -> Layout:
        """Looked at once in this process; the table and what belongs to it is made where it is missing.

        Raises `MemoryFailed` for a table that cannot hold a history, and what `PostgresPool.run` raises.
        """
        if self._layout is None:
            async with self._lock:
                if self._layout is None:
                    self._layout = await self.pool.run(self._prepare, again=True)
        return self._layout

    async def fetch(self, query: str, *arguments: object, again: bool = True) -> list[Any]:
        """`again`: whether doing it twice does no harm. Raises what `PostgresPool.run` raises."""
        import asyncpg

        async def call(connection: Any) -> list[Any]:
            try:
                rows: list[Any] = await connection.fetch(query, *arguments)
            except asyncpg.UndefinedTableError:  # somebody took it away
                self._layout = await self._prepare(connection)
                raise
            except asyncpg.SyntaxOrAccessError:  # or made another of it: it is looked at again
                self._layout = None
                raise
            return rows

        return await self.pool.run(call, again=again)

    async def _prepare(self, connection: Any) -> Layout:
        async with connection.transaction():
            # Two processes that make the same table at once would get in each other's way.
            await connection.execute("SELECT pg_advisory_xact_lock(hashtextextended($1, 0))", self.name)
            if await _is_missing(connection, self.name):
                await connection.execute(
                    f"CREATE TABLE {self.name} (id SERIAL PRIMARY KEY, "
                    "session_id VARCHAR(255) NOT NULL, message JSONB NOT NULL)"
                )
            columns = {row["name"]: row for row in await connection.fetch(_COLUMNS, self.name)}
            if fault := _fault(columns):
                raise MemoryFailed(f"table {self.name} cannot hold a chat history: {fault}")
            await self._index(connection, "session", "INDEX", "(session_id, id)")
            await self._index(connection, "turn", "UNIQUE INDEX", f"(session_id, ({TURN})) WHERE {TURN} IS NOT NULL")
            claims = await self._claims(connection)
        session, message = columns["session_id"], columns["message"]
        return Layout(session["type"], max(session["chars"], 0) or None, message["type"], claims)

    async def _index(self, connection: Any, label: str, kind: str, of: str) -> None:
        name = f'"{self._base[:45]}_{MARK}_{label}"'
        if await _is_missing(connection, self._schema + name):
            await self._allowed(connection, f"CREATE {kind} {name} ON {self.name} {of}")

    async def _claims(self, connection: Any) -> str | None:
        name = f'{self._schema}"{self._base[:45]}_{MARK}_claims"'
        if await _is_missing(connection, name):
            await self._allowed(connection, f"CREATE UNLOGGED TABLE {name} {_CLAIMS}")
        use = (
            f"DELETE FROM {name} WHERE at < now() - interval '1 day'; INSERT INTO {name} (claim) SELECT '' WHERE false"
        )
        return name if await self._allowed(connection, use) else None

    async def _allowed(self, connection: Any, statement: str) -> bool:
        """Do what is of use and can be done without."""
        import asyncpg

        try:
            async with connection.transaction():
                await connection.execute(f"SET LOCAL lock_timeout = '1s'; SET LOCAL statement_timeout = '{MAKE_S}s'")
                await connection.execute(statement)
        except (
            asyncpg.SyntaxOrAccessError,
            asyncpg.FeatureNotSupportedError,
            asyncpg.IntegrityConstraintViolationError,
            asyncpg.QueryCanceledError,
            asyncpg.LockNotAvailableError,
        ) as error:
            log.warning("postgres memory has to do without", table=self.name, statement=statement, error=str(error))
            return False
        return True


async def _is_missing(connection: Any, name: str) -> bool:
    return bool(await connection.fetchval("SELECT to_regclass($1) IS NULL", name))


def _fault(columns: dict[str, Any]) -> str | None:
    if missing := [name for name in ("id", "session_id", "message") if name not in columns]:
        return f"it has no column {missing[0]!r}"
    if (kind := columns["message"]["type"]) not in ("json", "jsonb"):
        return f"column 'message' is of type {kind}, not json or jsonb"
    if (kind := columns["id"]["type"]) not in ("smallint", "integer", "bigint", "numeric"):
        return f"column 'id' is of type {kind}, which does not tell the order of messages: it has to be serial"
    given = ("session_id", "message")
    if needed := [name for name, column in columns.items() if column["needed"] and name not in given]:
        return f"column {needed[0]!r} must have a value and has no default: give it one, or let it be null"
    return None
