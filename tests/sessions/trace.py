"""Finds a text anywhere in a Redis server: in every key, of every type, and in what is packed or compressed there."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator
from typing import Any, cast

import msgpack
import redis


def places_of(client: redis.Redis, text: str) -> list[str]:
    """The keys whose name or content holds the text, in whatever form."""
    return sorted(
        key.decode(errors="replace")
        for key in client.scan_iter(count=1000)
        if any(_holds(piece, text) for piece in (key, *_content(client, key)))
    )


def _content(client: redis.Redis, key: bytes) -> Iterator[bytes]:
    kind = cast(bytes, client.type(key)).decode()
    reply: Any
    match kind:
        case "string":
            reply = client.get(key)
        case "hash":
            reply = client.hgetall(key)
        case "list":
            reply = client.lrange(key, 0, -1)
        case "set":
            reply = list(cast("set[bytes]", client.smembers(key)))
        case "zset":
            reply = client.zrange(key, 0, -1)
        case "stream":
            reply = client.xrange(key)
        case "none":
            return  # expired meanwhile
        case _:
            raise AssertionError(f"{key!r} is of type {kind}: teach this test to read it")
    yield from _pieces(reply)


def _pieces(value: object) -> Iterator[bytes]:
    """All bytes in a nested reply, and all that is packed or compressed in them."""
    if isinstance(value, dict):
        value = [*value.keys(), *value.values()]
    if isinstance(value, list | tuple):
        for inner in value:
            yield from _pieces(inner)
    elif isinstance(value, str):
        yield value.encode()
    elif isinstance(value, bytes):
        yield value
        try:
            yield from _pieces(zlib.decompress(value))
        except zlib.error:
            pass
        try:
            unpacked = msgpack.unpackb(value, strict_map_key=False)
        except Exception:
            return
        if isinstance(unpacked, list | tuple | dict):
            yield from _pieces(unpacked)


def _holds(piece: bytes, text: str) -> bool:
    return any(form in piece for form in (text.encode(), json.dumps(text)[1:-1].encode()))
