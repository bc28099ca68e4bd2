"""The files of items: found by the name of a binary property, and made."""

from __future__ import annotations

import mimetypes
from collections.abc import Mapping
from typing import Any

from convoq.contract.context import Context
from convoq.contract.items import Binary
from convoq.errors import BadParameter, NodeFailed

TYPES = mimetypes.MimeTypes()
"""Python's own table, not the machine's: an answer is to be the same everywhere."""
for _suffix, _type in ((".md", "text/markdown"), (".ics", "text/calendar"), (".webp", "image/webp")):
    TYPES.add_type(_type, _suffix)


def file_of(ctx: Context[Any], item_index: int, property_name: object) -> Binary:
    """`property_name` may also be a file as an expression shows it (`$('Node').item.binary.data`), of this execution.

    Raises `NodeFailed` where there is none.
    """
    if isinstance(property_name, Mapping):
        return _shown(ctx, property_name)
    files = ctx.items[item_index].binary or {}
    if not isinstance(property_name, str):
        raise BadParameter(f"{property_name!r} is no name of a binary property", node=ctx.node.name)
    if (found := files.get(property_name.strip())) is None:
        there = f"it has {', '.join(map(repr, files))}" if files else "it has no files"
        raise NodeFailed(f"item {item_index} has no file {property_name!r} ({there})")
    return found


def _shown(ctx: Context[Any], given: Mapping[str, Any]) -> Binary:
    binary_id = str(given.get("id", ""))
    # Ids begin with the execution's: one made up would else open the files of another.
    if not binary_id.startswith((f"{ctx.execution.id}/", f"{ctx.execution.id}:")):
        raise NodeFailed(f"{str(dict(given))[:100]} is no file of this execution")
    return Binary(
        binary_id, str(given.get("mimeType", "")), str(given.get("fileName", "")), size_bytes=int(given.get("bytes", 0))
    )


async def keep(ctx: Context[Any], data: bytes, *, mime_type: str = "", file_name: str = "") -> Binary:
    """Keep a file for the execution; its type goes by its name where none is given."""
    kind = mime_type or TYPES.guess_type(file_name)[0] or "application/octet-stream"
    if file_name and "." not in file_name and (suffix := extension(kind)):
        file_name = f"{file_name}.{suffix}"
    return await ctx.services.binaries.put(ctx.execution.id, data, mime_type=kind, file_name=file_name)


def extension(mime_type: str) -> str:
    """Without its dot, empty where none is known."""
    return (TYPES.guess_extension(mime_type.partition(";")[0].strip()) or "").lstrip(".")
