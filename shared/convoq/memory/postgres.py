"""n8n's chat histories in PostgreSQL: a session's turns in a table that others may read and write, too."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn

from convoq.contract.memory import MAX_SESSION_BYTES, History, Turn, check_size, session_too_large
from convoq.errors import MemoryFailed, MemoryUnavailable
from convoq.memory.claims import ClaimedMemory, Claims
from convoq.memory.n8n_messages import decode_message, encode_message, read_turns, stored_messages
from convoq.memory.patience import Troubled
from convoq.memory.postgres_table import TURN, Layout, PostgresTable
from convoq.memory.repair import sendable

_NUL = re.compile(rb"((?<!\\)(?:\\\\)*)\\u0000")


class PostgresMemory(ClaimedMemory):
    """One statement to claim, one to read, one to write, each a transaction. Turns of one session are written one after
    the other. n8n never trims, and nothing expires."""

    def __init__(self, table: PostgresTable, session: str, *, window: int, claims: Claims | None) -> None:
        super().__init__(claims)
        self.window = window
        self._table = table
        self._session = session

    async def _read(self) -> History:
        name, layout = self._table.name, await self._layout("read")
        session = f"$1::text::{layout.session}"
        rows = await self._run(
            "read",
            layout,
            f"""
            WITH first AS (
                SELECT id FROM {name} WHERE session_id = {session} AND message->>'type' = 'human'
                ORDER BY id DESC OFFSET $2 LIMIT 1
            ), kept AS (
                SELECT id, message::text AS message FROM {name}
                WHERE session_id = {session} AND id >= coalesce((SELECT id FROM first), 0)
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
        await self._write(
            """
            begun AS (
                INSERT INTO {name} (session_id, message) SELECT {session}, $2::text::{message} FROM held
                WHERE NOT EXISTS (SELECT FROM {name} WHERE session_id = {session} AND {TURN} = $3)
                ON CONFLICT DO NOTHING RETURNING id
            ), rest AS (
                INSERT INTO {name} (session_id, message) SELECT {session}, rest.message::{message}
                FROM begun CROSS JOIN unnest($4::text[]) WITH ORDINALITY AS rest (message, n) ORDER BY rest.n
            )
            """,
            first,
            turn.id,
            rest,
            again=True,
        )

    async def replace(self, turns: Sequence[Turn]) -> None:
        check_size(*turns)
        # One statement sees the table as it was before it: the rows that it deletes are not those that it inserts.
        await self._write(
            """
            gone AS (DELETE FROM {name} USING held WHERE session_id = {session} RETURNING id),
            kept AS (
                INSERT INTO {name} (session_id, message) SELECT {session}, kept.message::{message}
                FROM held CROSS JOIN (SELECT count(*) FROM gone) AS done
                CROSS JOIN unnest($2::text[]) WITH ORDINALITY AS kept (message, n) ORDER BY kept.n
            )
            """,
            [row for turn in turns for row in _rows(turn)],
            again=False,
        )

    async def clear(self) -> None:
        await self.replace(())

    async def _write(self, change: str, *arguments: object, again: bool) -> None:
        """`change` are the parts of a statement that write with the lock of the session `held`; $1 is the session."""
        name, layout = self._table.name, await self._layout("write")
        parts = change.format(name=name, session=f"$1::text::{layout.session}", message=layout.message, TURN=TURN)
        last = len(arguments) + 2

        async def step(claim: str | None) -> bool:
            mine = () if claim is None or layout.claims is None else (claim,)
            claimed = f"DELETE FROM {layout.claims} WHERE session_id = $1::text AND claim = ${last + 1} RETURNING 1"
            rows = await self._run(
                "write",
                layout,
                f"""
                WITH claimed AS ({claimed if mine else "SELECT 1"}),
                held AS MATERIALIZED (
                    SELECT pg_advisory_xact_lock(hashtextextended(${last} || '/' || $1::text, 0)) FROM claimed
                ), {parts} SELECT FROM claimed
                """,
                self._session,
                *arguments,
                name,
                *mine,
                again=again,
            )
            return bool(rows)

        await self._claimed(step)

    async def _claim(self, mine: str, *, begin: bool = False) -> list[str]:
        layout = await self._layout("read")
        if layout.claims is None:
            return []
        fits = f"$1::text::{layout.session} IS NOT NULL"
        rows = await self._run(
            "read",
            layout,
            f"""
            WITH mine AS (
                INSERT INTO {layout.claims} (session_id, claim) SELECT $1::text, $2 WHERE {fits} ON CONFLICT DO NOTHING
            ) SELECT claim FROM {layout.claims} WHERE session_id = $1::text
            """,
            self._session,
            mine,
        )
        return [row[0] for row in rows]

    async def _drop(self, gone: Sequence[str]) -> None:
        layout = await self._layout("read")
        query = f"DELETE FROM {layout.claims} WHERE session_id = $1::text AND claim = ANY($2)"
        await self._run("read", layout, query, self._session, gone)

    async def _layout(self, action: str) -> Layout:
        with self._named(action):
            layout = await self._table.layout()
        if layout.session_chars is not None and len(self._session) > layout.session_chars:
            self._does_not_fit(layout, f"it has {len(self._session)} characters of at most {layout.session_chars}")
        return layout

    async def _run(self, action: str, layout: Layout, query: str, *arguments: object, again: bool = True) -> list[Any]:
        import asyncpg

        with self._named(action):
            try:
                return await self._table.fetch(query, *arguments, again=again)
            except asyncpg.DataError as error:
                if action == "read":
                    self._does_not_fit(layout, str(error))
                raise

    @contextmanager
    def _named(self, action: str) -> Iterator[None]:
        """Raises `MemoryFailed` where the server does not do it."""
        import asyncpg

        where = f"session {self._session!r} in {self._table.name}"
        try:
            yield
        except Troubled as error:
            raise MemoryUnavailable(f"cannot {action} the memory of {where}: {error}") from error
        except (asyncpg.PostgresError, asyncpg.InterfaceError, OSError, TimeoutError) as error:
            raise MemoryFailed(f"cannot {action} the memory of {where}: {error or type(error).__name__}") from error

    def _does_not_fit(self, layout: Layout, why: str) -> NoReturn:
        raise MemoryFailed(
            f"session key {self._session[:100]!r} does not fit column session_id of {self._table.name}, "
            f"which is of type {layout.session}: {why}. With 'Define below' the node takes another key"
        )


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
