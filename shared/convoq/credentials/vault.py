"""Credentials at rest: encrypted in Redis, one hash for all.

Encrypted is what is secret, the fields; id, name and type are readable. The key is `CONVOQ_ENCRYPTION_KEY`, any text;
`convoq up` makes one of its own and keeps it beside its data. Who has Redis and not the key has nothing.
"""

from __future__ import annotations

import base64
import hashlib
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
from cryptography.fernet import Fernet, InvalidToken

from convoq import keys
from convoq.errors import BadRequest, ConfigError, NotFound
from convoq.ids import new_execution_id
from convoq.redis import Pipe
from convoq.settings import Settings

CACHE_S = 2.0
"""How long a changed credential may go unnoticed: saves a round trip an execution."""
MAX_BYTES = 256 << 10


@dataclass(frozen=True, slots=True)
class CredentialRecord:
    """What is shown of a credential. `created` is in seconds since 1970."""

    id: str
    name: str
    type: str
    created: float


class _Stored(msgspec.Struct, frozen=True):
    name: str
    type: str
    created: float
    sealed: bytes


class Vault:
    """All operations raise redis-py's errors and `Unavailable` where the server cannot be reached."""

    def __init__(self, pipe: Pipe, settings: Settings) -> None:
        self._pipe = pipe
        secret = settings.encryption_key
        self._fernet = None if secret is None else Fernet(_derived(secret.get_secret_value()))
        self._kept: tuple[float, Mapping[str, _Stored]] = (-CACHE_S, {})

    async def add(self, name: str, kind: str, fields: Mapping[str, Any]) -> CredentialRecord:
        """Add one, or replace the one of the same name and type.

        Raises `BadRequest`, and `ConfigError` without a key.
        """
        if not name or not kind or not fields:
            raise BadRequest("a credential has a name, a type and at least one field")
        data = msgspec.json.encode(dict(fields))
        if len(data) > MAX_BYTES:
            raise BadRequest(f"credential {name!r} is larger than {MAX_BYTES} bytes")
        sealed = self._cipher().encrypt(data)
        held = await self._all(fresh=True)
        old = next((one for one, stored in held.items() if (stored.name, stored.type) == (name, kind)), None)
        credential_id = old or new_execution_id()
        stored = _Stored(name, kind, time.time(), sealed)
        await self._pipe.command("HSET", keys.CREDENTIALS, credential_id, msgspec.msgpack.encode(stored))
        self._kept = (-CACHE_S, {})
        return _record(credential_id, stored)

    async def list(self) -> list[CredentialRecord]:
        return sorted((_record(*one) for one in (await self._all(fresh=True)).items()), key=lambda one: one.name)

    async def remove(self, id_or_name: str) -> CredentialRecord:
        """Raises `NotFound`, and `BadRequest` where several have that name."""
        held = await self._all(fresh=True)
        found = [one for one in held if one == id_or_name] or [
            one for one, stored in held.items() if stored.name == id_or_name
        ]
        if not found:
            raise NotFound(f"there is no credential {id_or_name!r}")
        if len(found) > 1:
            raise BadRequest(
                f"{len(found)} credentials are called {id_or_name!r}: name one by its id, {', '.join(found)}"
            )
        await self._pipe.command("HDEL", keys.CREDENTIALS, found[0])
        self._kept = (-CACHE_S, {})
        return _record(found[0], held[found[0]])

    async def find(self, kind: str, reference: Mapping[str, Any]) -> tuple[Mapping[str, Any], bool] | None:
        """The fields, and whether it is the very one that is meant, by id or name, or the newest of its type."""
        held = await self._all()
        of_type = {one: stored for one, stored in held.items() if stored.type == kind}
        if not of_type:
            return None
        name = reference.get("name")
        meant = of_type.get(str(reference.get("id"))) or next(
            (stored for stored in of_type.values() if name and stored.name == name), None
        )
        chosen = meant or max(of_type.values(), key=lambda stored: stored.created)
        return self._opened(chosen), meant is not None

    def _opened(self, stored: _Stored) -> Mapping[str, Any]:
        try:
            fields: dict[str, Any] = msgspec.json.decode(self._cipher().decrypt(stored.sealed))
        except InvalidToken:
            raise ConfigError(
                f"credential {stored.name!r} was stored with another CONVOQ_ENCRYPTION_KEY: "
                "set that one, or add the credential again"
            ) from None
        return fields

    async def _all(self, *, fresh: bool = False) -> Mapping[str, _Stored]:
        now = time.monotonic()
        if fresh or now - self._kept[0] > CACHE_S:
            pairs = await self._pipe.command("HGETALL", keys.CREDENTIALS)
            found = {
                one.decode(): msgspec.msgpack.decode(data, type=_Stored)
                for one, data in zip(pairs[::2], pairs[1::2], strict=True)
            }
            self._kept = (now, found)
        return self._kept[1]

    def _cipher(self) -> Fernet:
        if self._fernet is None:
            raise ConfigError(
                "CONVOQ_ENCRYPTION_KEY is not set, so credentials cannot be stored: set it to a long random text "
                "(`openssl rand -hex 32`), the same for API and workers"
            )
        return self._fernet


def _record(credential_id: str, stored: _Stored) -> CredentialRecord:
    return CredentialRecord(credential_id, stored.name, stored.type, stored.created)


def _derived(secret: str) -> bytes:
    """A Fernet key of any text. No salt: the secret is random, and every process must come to the same."""
    return base64.urlsafe_b64encode(hashlib.scrypt(secret.encode(), salt=b"convoq", n=2**14, r=8, p=1, dklen=32))
