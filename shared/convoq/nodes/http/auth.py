"""What a credential adds to a request: the generic types, and by `predefined` those of well-known services."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

from convoq.contract.context import Context
from convoq.contract.services import ImpliedCredential
from convoq.errors import CredentialMissing, NodeFailed
from convoq.nodes.http import predefined
from convoq.nodes.http.aws import signer
from convoq.nodes.http.request import Auth

Fields = Mapping[str, Any]


async def auth_of(ctx: Context[Any], kind: str) -> Auth:
    """By the node's credential of that type. Raises `CredentialMissing`, and `NodeFailed` for a type of which it is
    not known how it authenticates, or fields that lack what it takes."""
    fields = await ctx.needed_credential(kind)
    domains = predefined.homes(kind, fields) if isinstance(fields, ImpliedCredential) else _domains(fields)
    make = _GENERIC.get(kind)
    try:
        auth = make(fields) if make is not None else predefined.auth(kind, fields)
    except KeyError as error:
        raise CredentialMissing(f"the credential of type {kind!r} has no field {error.args[0]!r}") from None
    except ValueError as error:
        raise NodeFailed(f"the credential of type {kind!r}: {error}") from None
    return replace(auth, domains=domains)


def basic(user: str, password: str) -> Auth:
    return Auth(headers={"Authorization": f"Basic {b64encode(f'{user}:{password}'.encode()).decode()}"})


def bearer(token: str) -> Auth:
    return Auth(headers={"Authorization": f"Bearer {token}"})


def _custom(fields: Fields) -> Auth:
    """n8n's `{"headers": {…}, "qs": {…}, "body": {…}}`."""
    given = fields["json"]
    try:
        found = json.loads(given) if isinstance(given, str) else given
    except ValueError as error:
        raise ValueError(f"not JSON: {error}") from None
    if not isinstance(found, dict):
        raise ValueError("should be a JSON object")
    return Auth(
        headers={name: str(value) for name, value in (found.get("headers") or {}).items()},
        query=tuple((name, str(value)) for name, value in (found.get("qs") or {}).items()),
        body=found.get("body") or {},
    )


def _domains(fields: Fields) -> list[str] | None:
    """Where the credential may be sent to, as its owner restricted it (n8n's `allowedHttpRequestDomains`)."""
    match fields.get("allowedHttpRequestDomains"):
        case "none":
            return []
        case "domains":
            return [name.strip().lower() for name in str(fields.get("allowedDomains", "")).split(",") if name.strip()]
    return None


_GENERIC: Final[Mapping[str, Callable[[Fields], Auth]]] = {
    "httpBasicAuth": lambda fields: basic(str(fields.get("user", "")), str(fields.get("password", ""))),
    "httpDigestAuth": lambda fields: Auth(digest=(str(fields["user"]), str(fields["password"]))),
    "httpHeaderAuth": lambda fields: Auth(headers={str(fields["name"]): str(fields["value"])}),
    "httpQueryAuth": lambda fields: Auth(query=((str(fields["name"]), str(fields["value"])),)),
    "httpBearerAuth": lambda fields: bearer(str(fields["token"])),
    "httpCustomAuth": _custom,
    "oAuth2Api": predefined.oauth2,
    "aws": lambda fields: Auth(
        sign=signer(
            str(fields["accessKeyId"]),
            str(fields["secretAccessKey"]),
            str(fields.get("region") or "us-east-1"),
            str(fields.get("sessionToken") or ""),
        )
    ),
}
