"""JSON Web Tokens, signed with the key of a `jwtAuth` credential."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jwt

from convoq.errors import BadParameter, CredentialMissing


def signed(payload: Any, credential: Mapping[str, Any]) -> str:
    """`payload` as a token. Raises `BadParameter` where it is no object, `CredentialMissing` without a fitting key."""
    if not isinstance(payload, dict):
        raise BadParameter("parameter 'payload' should be a JSON object", parameter="payload")
    pem = credential.get("keyType") == "pemKey"
    key = credential.get("privateKey" if pem else "secret")
    algorithm = credential.get("algorithm") or "HS256"
    if not key or algorithm == "none":
        raise CredentialMissing(f"the jwtAuth credential has no {'privateKey' if pem else 'secret'}")
    try:
        return jwt.encode(payload, _lines(key) if pem else key, algorithm=algorithm)
    except (jwt.PyJWTError, NotImplementedError, ValueError, TypeError) as error:
        raise CredentialMissing(f"the jwtAuth credential's key does not sign with {algorithm!r}: {error}") from None


def _lines(key: str) -> str:
    r"""A key in one line, with spaces or `\n` where its lines ended, as it comes out of forms and variables."""
    key = key.strip().replace("\\n", "\n")
    if "\n" in key or "-----" not in key:
        return key
    _, begin, body, end, _ = key.split("-----")
    return f"-----{begin}-----\n" + "\n".join(body.split()) + f"\n-----{end}-----\n"
