"""The credentials that nodes refer to, from one JSON file: `{id or name: {credential type: {field: value}}}`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from convoq.errors import ConfigError


class Credentials:
    """Resolves a node's reference `{"id", "name"}`: by its id, else by its name. Shows nothing of what it holds."""

    def __init__(self, held: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> None:
        self._held = held

    async def __call__(self, kind: str, reference: Mapping[str, Any]) -> Mapping[str, Any] | None:
        for key in ("id", "name"):
            name = reference.get(key) if isinstance(reference, Mapping) else None
            if isinstance(name, str) and (fields := self._held.get(name, {}).get(kind)) is not None:
                return fields
        return None

    def of_type(self, kind: str) -> Mapping[str, Any] | None:
        """Any one of that type."""
        return next((kinds[kind] for kinds in self._held.values() if kind in kinds), None)


def read_credentials(path: str | None) -> Credentials:
    """None where no file is set. Raises `ConfigError` naming the file, and never what is in it."""
    if not path:
        return Credentials({})
    try:
        data = json.loads(Path(path).read_bytes())
    except OSError as error:
        raise ConfigError(f"CONVOQ_CREDENTIALS={path!r} cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError):
        raise ConfigError(f"CONVOQ_CREDENTIALS={path!r} is not JSON") from None
    for name, kinds in data.items() if isinstance(data, dict) else [("", None)]:
        if not isinstance(kinds, dict) or not all(isinstance(fields, dict) for fields in kinds.values()):
            raise ConfigError(
                f"CONVOQ_CREDENTIALS={path!r}: {name!r} should be {{credential type: {{field: value}}}}, "
                'as in {"my redis": {"redis": {"host": "…"}}}'
            )
    return Credentials(data)
