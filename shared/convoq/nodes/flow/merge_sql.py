"""Merge by SQL: each input is a table (`input1`, `input2`, …) of an SQLite database in memory, made for one query.

Untrusted SQL: it may only read these tables, and ends within limits of time and size.
"""

from __future__ import annotations

import asyncio
import json
import re
import sqlite3
import time
from collections.abc import Mapping, Sequence
from typing import Any

from convoq.contract.context import RunContext
from convoq.contract.items import Item, PairedItem
from convoq.errors import NodeFailed
from convoq.nodes.flow.combining import Entry

TIME_LIMIT_S = 5.0
MAX_ROWS = 100_000
MAX_VALUE_BYTES = 10_000_000
_ALLOWED = {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE}
_MARK = "\x00json:"
"""Before the text of an object or array, of which SQLite knows nothing."""
_ROW = "_convoq_row_"
_COLUMNS = re.compile(r"\s*select\s+(?!distinct\b)(?P<columns>.+?)\s+from\s", re.IGNORECASE | re.DOTALL)
_BARE_ROW_NUMBER = re.compile(r"\brow_number\s*\(\s*\)(?!\s*over\b)", re.IGNORECASE)


async def select(ctx: RunContext[Any], query: str, inputs: Sequence[list[Entry]], success_item: bool) -> list[Item]:
    """The rows as items. `success_item`: where there are none, one item says that it went well.

    Raises `NodeFailed` with what SQLite says of the query.
    """
    query = _BARE_ROW_NUMBER.sub(r"ROW_NUMBER() OVER ()", query.strip().rstrip(";"))
    try:
        rows = await asyncio.to_thread(_rows, query, [[entry.item for entry in of] for of in inputs])
    except (sqlite3.Error, sqlite3.Warning) as error:
        raise NodeFailed(f"query {query[:200]!r}: {error}") from None
    every = [PairedItem(at, entry.input) for of in inputs for at, entry in enumerate(of)]
    made = [_item(row, every) for row in rows]
    return made or ([Item({"success": True}, paired_item=every)] if success_item else [])


def _rows(query: str, inputs: Sequence[Sequence[Item]]) -> list[list[tuple[str, Any]]]:
    database = sqlite3.connect(":memory:", detect_types=sqlite3.PARSE_DECLTYPES)
    try:
        for number, items in enumerate(inputs, start=1):
            _fill(database, f"input{number}", f"{_ROW}{number}", [item.json for item in items])
        deadline = time.monotonic() + TIME_LIMIT_S
        database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MAX_VALUE_BYTES)
        database.set_progress_handler(lambda: time.monotonic() > deadline, 10_000)
        database.set_authorizer(lambda action, *_: sqlite3.SQLITE_OK if action in _ALLOWED else sqlite3.SQLITE_DENY)
        try:
            cursor = database.execute(_with_rows(query, len(inputs)))
        except sqlite3.OperationalError:  # a query in which the tables' own rows have no place
            cursor = database.execute(query)
        names = [column[0] for column in cursor.description or ()]
        found = cursor.fetchmany(MAX_ROWS + 1)
        if len(found) > MAX_ROWS:
            raise sqlite3.DataError(f"gives more than {MAX_ROWS} rows")
        return [list(zip(names, row, strict=True)) for row in found]
    finally:
        database.close()


def _fill(database: sqlite3.Connection, table: str, row: str, items: Sequence[Mapping[str, Any]]) -> None:
    """A column a field; names that differ only in case are one to SQL, the first counts."""
    columns: dict[str, str] = {}
    for item in items:
        for name in item:
            columns.setdefault(name.lower(), name)
    names = list(columns.values())
    booleans = {name for name in names if all(isinstance(item.get(name), bool | None) for item in items)}
    kinds = ["INTEGER", *("BOOLEAN_BLOB" if name in booleans else "BLOB" for name in names)]
    quoted = [row, *('"' + name.replace('"', '""') + '"' for name in names)]
    database.execute(
        f"CREATE TABLE {table} ({', '.join(f'{name} {kind}' for name, kind in zip(quoted, kinds, strict=True))})"
    )
    database.executemany(
        f"INSERT INTO {table} VALUES ({', '.join('?' * len(quoted))})",
        ([at, *(_stored(item.get(name)) for name in names)] for at, item in enumerate(items)),
    )


def _stored(value: Any) -> Any:
    if isinstance(value, dict | list):
        return _MARK + json.dumps(value)
    return float(value) if isinstance(value, int) and abs(value) >= 2**63 else value


def _with_rows(query: str, inputs: int) -> str:
    """The query with the numbers of the rows that a row was made of, where it names its columns."""
    match = _COLUMNS.match(query)
    if match is None or match["columns"].strip() == "*":
        return query
    used = [number for number in range(1, inputs + 1) if re.search(rf"\binput{number}\b", query, re.IGNORECASE)]
    extra = "".join(f", input{number}.{_ROW}{number} AS {_ROW}{number}" for number in used)
    return query[: match.end("columns")] + extra + query[match.end("columns") :]


def _item(row: list[tuple[str, Any]], every: list[PairedItem]) -> Item:
    """A field without a value is left out, as a join leaves it; of columns of the same name the last value counts."""
    found: dict[str, Any] = {}
    paired = []
    for name, value in row:
        if value is None:
            continue
        if name.startswith(_ROW):
            paired.append(PairedItem(int(value), int(name.removeprefix(_ROW)) - 1))
        else:
            found[name] = (
                json.loads(value[len(_MARK) :]) if isinstance(value, str) and value.startswith(_MARK) else value
            )
    return Item(found, paired_item=paired or every)


sqlite3.register_converter("BOOLEAN_BLOB", lambda raw: raw == b"1")
