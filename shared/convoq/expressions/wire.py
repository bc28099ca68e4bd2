"""Requests and answers of the sandbox as bytes."""

from __future__ import annotations

import json
from typing import Any, TypeVar

import msgspec

T = TypeVar("T")


def encoded(request: dict[str, Any]) -> bytes:
    try:
        return msgspec.json.encode(request)
    except UnicodeEncodeError:  # Half of a surrogate pair, which JavaScript's strings may hold.
        return json.dumps(request, default=lambda raw: json.loads(bytes(raw))).encode()


def decoded(answer: bytes, form: type[T]) -> T:
    """Raises `msgspec.ValidationError` where it is not of that form."""
    try:
        return msgspec.json.decode(answer, type=form)
    except msgspec.ValidationError:
        raise
    except msgspec.DecodeError:  # As above.
        return msgspec.convert(json.loads(answer), form)
