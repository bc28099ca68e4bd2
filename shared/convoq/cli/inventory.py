"""`convoq redis`: what convoq holds there."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import typer
from redis.asyncio import Redis
from rich.console import Console
from rich.table import Table

from convoq import keys
from convoq.cli.connect import connected, url_of
from convoq.cli.terminal import printable
from convoq.settings import Settings

BATCH = 500


@dataclass(slots=True)
class Kind:
    """`size` is what Redis says that keys, values and their administration take, in bytes. `oldest` is the key without
    a time-to-live that was not touched for longest, for `idle_s`; both None where every key expires, `idle_s` also
    where Redis keeps no such times (policy LFU)."""

    kind: str
    what: str
    count: int = 0
    size: int = 0
    lasting: int = 0
    oldest: str | None = None
    idle_s: int | None = None

    def add(self, key: bytes, size: int, ttl_s: int, idle_s: int | None) -> None:
        self.count += 1
        self.size += size
        if ttl_s == -1:
            self.lasting += 1
            if self.oldest is None or (idle_s or 0) > (self.idle_s or 0):
                self.oldest, self.idle_s = key.decode(errors="replace"), idle_s

    def shown(self) -> tuple[str, ...]:
        idle = "" if self.idle_s is None else f", untouched for {self.idle_s} s"
        oldest = "" if self.oldest is None else f"{self.oldest}{idle}"
        return (self.kind, self.what, str(self.count), str(self.size), str(self.lasting), oldest)


async def list_keys(settings: Settings, data: Path, *, as_json: bool) -> None:
    """By kind, the largest first."""
    async with connected(url_of(settings, data)) as client:
        found = await inventory(client)
    rows = sorted(found, key=lambda row: -row.size)
    if as_json:
        typer.echo(json.dumps([asdict(row) for row in rows], ensure_ascii=False, indent=2))
        return
    table = Table("kind", "what", "keys", "bytes", "without TTL", "the oldest of these", box=None, header_style="bold")
    for row in [*rows, _total(rows)]:
        table.add_row(*map(printable, row.shown()))
    console = Console()
    if not console.is_terminal:
        console.width = 1000  # for grep and its like: no line is wrapped or cut
    console.print(table, markup=False) if rows else typer.echo(f"no keys begin with {keys.PREFIX}", err=True)


def _total(rows: Sequence[Kind]) -> Kind:
    sums = (sum(row.count for row in rows), sum(row.size for row in rows), sum(row.lasting for row in rows))
    return Kind("all", f"{keys.PREFIX}*", *sums)


async def inventory(client: Redis) -> Sequence[Kind]:
    """All keys of this installation, in a pass that never keeps the server for long."""
    kinds: dict[str, Kind] = {}
    async for batch in _batches(client):
        async with client.pipeline(transaction=False) as pipeline:
            for key in batch:
                pipeline.object("IDLETIME", key)
                pipeline.memory_usage(key)
                pipeline.ttl(key)
            replies: list[Any] = await pipeline.execute(raise_on_error=False)
        for key, idle_s, size, ttl_s in zip(batch, replies[::3], replies[1::3], replies[2::3], strict=True):
            for reply in (size, ttl_s):
                if isinstance(reply, Exception):
                    raise reply
            if size is not None and ttl_s != -2:  # else it has expired meanwhile
                name = keys.kind(key.decode(errors="replace"))
                kind = kinds.setdefault(name, Kind(name, keys.KINDS.get(name, "")))
                kind.add(key, size, ttl_s, idle_s if isinstance(idle_s, int) else None)
    return list(kinds.values())


async def _batches(client: Redis) -> AsyncIterator[list[bytes]]:
    batch: list[bytes] = []
    async for key in client.scan_iter(match=f"{keys.PREFIX}*", count=BATCH):
        batch.append(key)
        if len(batch) == BATCH:
            yield batch
            batch = []
    if batch:
        yield batch
