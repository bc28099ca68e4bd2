"""Where the bytes of files are while executions pass references to them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from convoq.contract.items import Binary
from convoq.errors import BinaryGone


class BinaryStore(Protocol):
    """Files by reference, each with a time-to-live, seen by every worker.

    `put` raises `BinaryTooLarge`, `get` raises `BinaryGone`. `execution_id` says whose file it is: what is deleted with
    an execution or a session goes by it.
    """

    async def put(self, execution_id: str, data: bytes, *, mime_type: str, file_name: str = "") -> Binary: ...

    async def get(self, binary: Binary) -> bytes: ...


class LocalBinaries:
    """In this process only: for runs without Redis, and for tests."""

    def __init__(self) -> None:
        self._held: dict[str, bytes] = {}

    async def put(self, execution_id: str, data: bytes, *, mime_type: str, file_name: str = "") -> Binary:
        made = reference(f"{execution_id}:{len(self._held)}", data, mime_type, file_name)
        self._held[made.id] = data
        return made

    async def get(self, binary: Binary) -> bytes:
        try:
            return self._held[binary.id]
        except KeyError:
            raise BinaryGone(f"file {binary.file_name or binary.id!r} is not kept any more") from None


def reference(binary_id: str, data: bytes, mime_type: str, file_name: str) -> Binary:
    _, dot, extension = file_name.rpartition(".")
    return Binary(binary_id, mime_type, file_name, extension.lower() if dot else "", len(data))


def shown(binary: Mapping[str, Binary] | None) -> dict[str, dict[str, object]]:
    """As n8n shows an item's files to expressions and people, without their bytes."""
    return {
        name: {
            "mimeType": file.mime_type,
            "fileName": file.file_name,
            "fileExtension": file.file_extension,
            "fileSize": _size(file.size_bytes),
            "bytes": file.size_bytes,
            "id": file.id,
        }
        for name, file in (binary or {}).items()
    }


def _size(count: int) -> str:
    """n8n's `fileSize`: 1000-based, as the npm package pretty-bytes writes it."""
    amount, units = float(count), iter(("B", "kB", "MB", "GB"))
    unit = next(units)
    for larger in units:
        if amount < 1000:
            break
        amount, unit = amount / 1000, larger
    return f"{amount:.3g} {unit}"
