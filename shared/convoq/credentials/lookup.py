"""Where a node's credential is looked for: the file, the vault, the environment, in this order."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from redis.exceptions import RedisError

from convoq.contract.services import ImpliedCredential
from convoq.credentials.environment import credential_from_environment
from convoq.credentials.file import read_credentials
from convoq.credentials.vault import Vault
from convoq.errors import NodeFailed, Unavailable
from convoq.redis import Pipe
from convoq.settings import Settings


class CredentialLookup:
    """The very one that is meant, wherever it is; else one of its type, as an `ImpliedCredential`."""

    def __init__(self, settings: Settings, pipe: Pipe | None = None) -> None:
        self._file = read_credentials(settings.credentials_file)
        self._vault = None if pipe is None else Vault(pipe, settings)

    async def __call__(self, kind: str, reference: Mapping[str, Any]) -> Mapping[str, Any] | None:
        if (fields := await self._file(kind, reference)) is not None:
            return fields
        implied = None
        if self._vault is not None:
            try:
                found = await self._vault.find(kind, reference)
            except (RedisError, Unavailable) as error:
                raise NodeFailed(f"cannot look up a credential of type {kind!r}: {error}") from error
            if found is not None:
                fields, meant = found
                if meant:
                    return fields
                implied = fields
        if implied is None:
            implied = self._file.of_type(kind) or credential_from_environment(kind)
        return None if implied is None else ImpliedCredential(implied)
