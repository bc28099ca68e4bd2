"""The servers that credentials name: n8n's fields of each kind, and how convoq connects."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

MAX_CONNECTIONS = 10
"""To one server, from one process: a turn holds one for a millisecond."""
CONNECT_S, REPLY_S = 10.0, 30.0


def _name_alone(host: str) -> str:
    if "@" in host or "://" in host:
        raise ValueError("an address: give the host's name alone, user and password have fields of their own")
    return host


Host = Annotated[str, AfterValidator(_name_alone)]


class RedisCredential(BaseModel):
    """n8n's fields of the credential type `redis`."""

    model_config = ConfigDict(extra="ignore", frozen=True, hide_input_in_errors=True)

    host: Host = "localhost"
    port: int = Field(6379, ge=1, le=65535)
    database: int = Field(0, ge=0)
    user: str = ""
    password: str = Field("", repr=False)
    ssl: bool = False


class PostgresCredential(BaseModel):
    """n8n's fields of the credential type `postgres`."""

    model_config = ConfigDict(extra="ignore", frozen=True, hide_input_in_errors=True)

    host: Host = "localhost"
    port: int = Field(5432, ge=1, le=65535)
    database: str = "postgres"
    user: str = "postgres"
    password: str = Field("", repr=False)
    ssl: Literal["disable", "allow", "prefer", "require", "verify-ca", "verify-full"] = "disable"


class MongoCredential(BaseModel):
    """n8n's fields of the credential type `mongoDb`: a connection string, or its parts."""

    model_config = ConfigDict(extra="ignore", frozen=True, hide_input_in_errors=True)

    connection_string: str = Field("", alias="connectionString", repr=False)
    host: str = "localhost"
    port: int | None = Field(27017, ge=1, le=65535)
    database: str = ""
    user: str = ""
    password: str = Field("", repr=False)
