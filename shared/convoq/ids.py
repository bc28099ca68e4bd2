"""Execution ids: UUIDv7, so that they sort by the time they were made, strictly increasing within a process."""

from __future__ import annotations

import secrets

from uuid_utils import uuid7


def new_execution_id() -> str:
    return str(uuid7())


def new_token() -> str:
    """What proves that a reader of a stream is the one who started it: 128 bits, URL-safe."""
    return secrets.token_urlsafe(16)
