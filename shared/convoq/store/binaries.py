"""Files that executions pass on, in Redis: one hash an execution, so that they go when it goes."""

from __future__ import annotations

from uuid import uuid4

from redis.exceptions import RedisError

from convoq import keys
from convoq.contract.binary import reference
from convoq.contract.items import Binary
from convoq.errors import BinaryGone, BinaryTooLarge, StoreFailed, Unavailable
from convoq.redis import Pipe, load_script
from convoq.settings import Settings


class RedisBinaries:
    """An id is `EXECUTION/FILE`. A file lives as long as its execution's record, at most."""

    def __init__(self, pipe: Pipe, settings: Settings) -> None:
        self._pipe = pipe
        self._settings = settings
        self._put = load_script("put_file")

    async def put(self, execution_id: str, data: bytes, *, mime_type: str, file_name: str = "") -> Binary:
        most, all_most = self._settings.file_max_bytes, self._settings.files_max_bytes
        shown = repr(file_name[:100]) if file_name else f"a file of type {mime_type[:100]!r}"
        if len(data) > most:
            raise BinaryTooLarge(f"{shown} has {len(data)} bytes ({most} allowed, CONVOQ_FILE_MAX_BYTES)")
        name = uuid4().hex
        try:
            kept = await self._pipe.run(
                self._put, [keys.files(execution_id)], [name, data, all_most, self._settings.execution_ttl_s]
            )
        except (RedisError, Unavailable) as error:
            raise StoreFailed(f"cannot keep {shown}: {error}") from error
        if not kept:
            raise BinaryTooLarge(
                f"with {shown} the files of this execution are over {all_most} bytes (CONVOQ_FILES_MAX_BYTES)"
            )
        return reference(f"{execution_id}/{name}", data, mime_type, file_name)

    async def get(self, binary: Binary) -> bytes:
        execution_id, _, name = binary.id.rpartition("/")
        try:
            data: bytes | None = await self._pipe.command("HGET", keys.files(execution_id), name)
        except (RedisError, Unavailable) as error:
            raise StoreFailed(f"cannot read file {binary.file_name or binary.id!r}: {error}") from error
        if data is None:
            raise BinaryGone(f"file {binary.file_name or binary.id!r} is not kept any more")
        return data
