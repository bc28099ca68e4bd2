"""The servers that credentials name: n8n's fields of each kind, and what convoq makes of them.

Every field is acted on or named in an error: a connection that is not what its owner asked for is worse than none.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from ssl import CERT_NONE, SSLContext, create_default_context
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from convoq.errors import NodeFailed

MAX_CONNECTIONS = 10
"""To one server, from one process: a turn holds one for a millisecond."""
CONNECT_S, REPLY_S = 10.0, 30.0
IDLE_S = 60.0
"""Connections are closed, or asked whether they live, before gateways on the way forget them."""
_PEM = re.compile(r"(-----BEGIN [A-Z0-9 ]+-----)(.*?)(-----END [A-Z0-9 ]+-----)", re.DOTALL)


def _name_alone(host: str) -> str:
    if "@" in host or "://" in host:
        raise ValueError("an address: give the host's name alone, user and password have fields of their own")
    return host


Host = Annotated[str, AfterValidator(_name_alone)]


class ServerCredential(BaseModel):
    """`refused`: what convoq does not do where such a field is set, and what to do instead. `details`: fields that only
    tell how a refused one is done."""

    model_config = ConfigDict(extra="ignore", frozen=True, hide_input_in_errors=True)

    kind: ClassVar[str]
    refused: ClassVar[Mapping[str, str]] = {}
    details: ClassVar[frozenset[str]] = frozenset()

    @classmethod
    def read(cls, fields: Mapping[str, Any]) -> Self:
        """Raises `NodeFailed` for wrong fields, and for those that convoq does not act on; it never tells a value."""
        known = {field.alias or name for name, field in cls.model_fields.items()}
        for name, value in fields.items():
            if name in known or name in cls.details or value in (None, "", False):
                continue
            why = cls.refused.get(name, f"convoq does not know it; it knows {', '.join(sorted(known))}")
            raise NodeFailed(f"credential of type {cls.kind!r}: field {name[:100]!r} is set, but {why}")
        try:
            return cls.model_validate(cls._given(fields))
        except ValidationError as error:
            faults = (f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}" for fault in error.errors())
            raise NodeFailed(f"credential of type {cls.kind!r}: {'; '.join(faults)}") from None

    @classmethod
    def _given(cls, fields: Mapping[str, Any]) -> dict[str, Any]:
        return {name: value for name, value in fields.items() if value is not None}


class RedisCredential(ServerCredential):
    kind = "redis"

    host: Host = "localhost"
    port: int = Field(6379, ge=1, le=65535)
    database: int = Field(0, ge=0)
    user: str = ""
    password: str = Field("", repr=False)
    ssl: bool = False
    unverified: bool = Field(False, alias="disableTlsVerification")

    def tls(self) -> dict[str, Any]:
        """The options of a TLS connection."""
        return {"ssl_cert_reqs": "none", "ssl_check_hostname": False} if self.unverified else {}


class PostgresCredential(ServerCredential):
    """With TLS the server's certificate is verified, as n8n does it under each of these names but `prefer`."""

    kind = "postgres"
    refused = {
        "sshTunnel": "convoq opens no SSH tunnel: open one beside it (ssh -N -L 5432:HOST:5432 USER@GATEWAY), "
        "and give its near end as host and port"
    }
    details = frozenset(
        "sshAuthenticateWith sshHost sshPort sshUser sshPassword sshPrivateKey sshPassphrase "
        "privateKey passphrase".split()
    )

    host: Host = "localhost"
    port: int = Field(5432, ge=1, le=65535)
    database: str = "postgres"
    user: str = "postgres"
    password: str = Field("", repr=False)
    ssl: Literal["disable", "allow", "prefer", "require", "verify", "verify-ca", "verify-full"] = "disable"
    unverified: bool = Field(False, alias="allowUnauthorizedCerts")
    max_connections: int = Field(MAX_CONNECTIONS, alias="maxConnections", ge=1)

    def tls(self) -> SSLContext | Literal["disable", "prefer"]:
        if not self.unverified and (self.ssl == "disable" or self.ssl == "prefer"):
            return self.ssl
        context = create_default_context()
        if self.unverified or self.ssl == "verify-ca":
            context.check_hostname = False
        if self.unverified:
            context.verify_mode = CERT_NONE
        return context


class MongoCredential(ServerCredential):
    """A connection string, or its parts: without a port they are those of `mongodb+srv`."""

    kind = "mongoDb"

    configuration: Literal["connectionString", "values", ""] = Field("", alias="configurationType")
    connection_string: str = Field("", alias="connectionString", repr=False)
    host: str = "localhost"
    port: int | None = Field(27017, ge=1, le=65535)
    database: str = ""
    user: str = ""
    password: str = Field("", repr=False)
    tls: bool = False
    ca: str = Field("", repr=False)
    cert: str = Field("", repr=False)
    key: str = Field("", repr=False)
    passphrase: str = Field("", repr=False)

    @classmethod
    def _given(cls, fields: Mapping[str, Any]) -> dict[str, Any]:
        srv = {"port": None} if fields.get("port", 27017) in (None, "", 0) else {}
        return super()._given(fields) | srv

    def address(self) -> tuple[str, int | None, dict[str, Any]]:
        """Host or URL, port, and the options of who connects. Raises `NodeFailed`."""
        if self.configuration == "connectionString" and not self.connection_string.strip():
            raise NodeFailed("credential of type 'mongoDb': 'connectionString' is empty")
        if self.connection_string.strip() and self.configuration != "values":
            return self.connection_string.strip(), None, {}
        who = {"username": self.user, "password": self.password} if self.user else {}
        return (self.host, self.port, who) if self.port else (f"mongodb+srv://{self.host}", None, who)

    def pems(self) -> dict[str, str]:
        """Option of pymongo -> what the file that it names has to hold."""
        if not self.tls:
            return {}
        pems = {"tlsCAFile": _pem(self.ca), "tlsCertificateKeyFile": _pem(self.cert) + _pem(self.key)}
        return {option: pem for option, pem in pems.items() if pem}


def _pem(text: str) -> str:
    """n8n's input field makes spaces of the newlines in a PEM."""
    blocks = _PEM.findall(text)
    return "".join(f"{begin}\n{chr(10).join(body.split())}\n{end}\n" for begin, body, end in blocks) or text
