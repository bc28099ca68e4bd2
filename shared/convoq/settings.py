"""All configuration: one frozen object, read once in a `main` and passed down.

Every field is set by the environment variable `CONVOQ_<NAME>`; its description is what `deploy/settings.md` and
`deploy/env.example` say of it (a test holds them together).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import AfterValidator, AliasChoices, Field, SecretStr, ValidationError, field_validator
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, SettingsConfigDict

from convoq import addresses, keys
from convoq.errors import ConfigError

PREFIX = "CONVOQ_"
WhenBusy = Literal["queue", "reject", "latest", "interrupt", "merge"]
RunData = Literal["all", "errors", "none"]


def _sound(address: str) -> str:
    if wrong := addresses.fault(address):
        raise ValueError(wrong)
    return address


Address = Annotated[str, AfterValidator(_sound)]
"""Of a server: may hold a password, so it is shown as `addresses.shown` has it, and can come from a file."""


class Settings(BaseSettings):
    model_config = SettingsConfigDict(env_prefix=PREFIX, frozen=True, extra="ignore", populate_by_name=True)

    redis_url: Address = Field(
        "redis://127.0.0.1:6379/0", repr=False, description="Redis or Valkey server (6.2 or newer)"
    )
    redis_wait_s: float = Field(60.0, ge=0, description="seconds a starting worker waits for Redis to be there")
    prefix: str = Field(
        keys.DEFAULT,
        pattern=f"^{keys.ALLOWED}$",
        description="what all keys, channels and queues begin with: one for each installation on a Redis",
    )
    queue: str = Field("chat", min_length=1, description="name of the RQ queue")
    host: str = Field("127.0.0.1", description="address the API listens on")
    port: int = Field(8080, ge=0, le=65535, description="port the API listens on")
    api_key: SecretStr | None = Field(None, description="key for /api/v1 (header X-API-Key); none: open")
    concurrency: int = Field(
        1000, ge=1, le=10_000, description="executions a worker runs at once, at most: it takes none while it is late"
    )
    drain_s: float = Field(25.0, ge=0, description="seconds a stopping worker lets executions finish")
    job_timeout_s: int = Field(300, ge=1, description="seconds one execution may take")
    model_first_byte_timeout_s: float = Field(120.0, gt=0, description="seconds a model may take for its first byte")
    model_between_chunks_timeout_s: float = Field(60.0, gt=0, description="seconds a model may fall silent after that")
    model_empty_retries: int = Field(1, ge=0, le=5, description="times a model that answers nothing is asked again")
    max_body_bytes: int = Field(1 << 20, ge=1024, description="largest request body, bytes")
    max_bodies_bytes: int = Field(
        16 << 20, ge=1024, description="bytes of all request bodies under way, but 16 KiB of each; beyond it 503"
    )
    max_header_bytes: int = Field(16 << 10, ge=1024, description="largest request head, bytes; beyond it 431")
    head_timeout_s: float = Field(15.0, gt=0, description="seconds a request's head may take; beyond it 408")
    body_timeout_s: float = Field(60.0, gt=0, description="seconds a request's body may take; beyond it 408")
    max_connections: int = Field(4000, ge=1, description="connections to one API process; idle ones go first, then 503")
    max_message_chars: int = Field(100_000, ge=1, description="longest chat message, characters")
    keepalive_s: float = Field(10.0, gt=0, description="seconds between keepalive lines of a stream")
    lease_s: float = Field(3.0, gt=0.2, description="seconds after which a silent worker counts as lost")
    redis_patience_s: float = Field(
        15.0,
        gt=0,
        description="seconds an answer waits for a Redis that refuses (full, loading, failing over) before it ends",
    )
    max_attempts: int = Field(3, ge=1, le=20, description="times a message is tried when its workers are lost")
    max_waiting: int = Field(2000, ge=1, description="messages that may wait; beyond it 503 with Retry-After")
    when_busy: WhenBusy = Field(
        "queue",
        description="second message while the first runs: queue, reject, latest, interrupt, merge",
    )
    merge_window_s: float = Field(
        0.0, ge=0, le=60, description="seconds a message waits to be joined by others (merge)"
    )
    stream_ttl_s: int = Field(900, ge=10, description="seconds a stream can be read again after its last chunk")
    stream_max_bytes: int = Field(4 << 20, ge=1024, description="largest stream of one execution, bytes")
    stream_max_chunks: int = Field(100_000, ge=100, description="most chunks in the stream of one execution")
    client_buffer_bytes: int = Field(256 << 10, ge=1024, description="what the API holds for one slow client, bytes")
    execution_ttl_s: int = Field(86_400, ge=60, description="seconds the record of an execution is kept")
    failure_ttl_s: int = Field(86_400, ge=60, description="seconds a failed job stays in RQ's failed registry")
    run_data: RunData = Field("all", description="whose run data is kept: all, errors, none")
    run_data_ttl_s: int = Field(86_400, ge=60, description="seconds run data is kept")
    run_data_max_bytes: int = Field(1 << 20, ge=1024, description="largest run data kept of one execution, bytes")
    file_max_bytes: int = Field(16 << 20, ge=1024, description="largest file an execution may hold, bytes")
    files_max_bytes: int = Field(64 << 20, ge=1024, description="all files of one execution together, bytes")
    memory_ttl_s: int = Field(3600, ge=1, description="seconds an idle session is remembered (renewed by each turn)")
    memory_patience_s: float = Field(
        10.0,
        ge=0,
        description="seconds a memory waits for a database that is away, full or read-only",
    )
    memory_stand_in: bool = Field(
        True, description="whether convoq's own Redis stands in for a Redis Chat Memory whose credential is not known"
    )
    timezone: str = Field("UTC", description="time zone of expressions in workflows that name none (IANA name)")
    variables: dict[str, str] = Field({}, description="what expressions see as $vars: JSON, {name: value}")
    expressions_see_env: bool = Field(False, description="expressions may read this process's environment ($env)")
    expression_timeout_s: float = Field(1.0, gt=0, description="seconds of processor time an expression may take")
    code_timeout_s: float = Field(10.0, gt=0, description="seconds of processor time a Code node may take")
    sandbox_memory_mb: int = Field(128, ge=32, description="memory an expression or a Code node may take, MB")
    sandbox_processes: int = Field(4, ge=1, le=64, description="sandbox processes of a worker at most, of each kind")
    egress_allow: str = Field(
        "",
        description="what nodes may connect to besides public addresses: host names, .suffixes, networks, `private`",
    )
    egress_max_bytes: int = Field(16 << 20, ge=1024, description="largest answer that a node reads of a server, bytes")
    credentials_file: str | None = Field(
        None,
        validation_alias=AliasChoices("CONVOQ_CREDENTIALS", "credentials_file"),
        description="JSON file of the credentials that nodes name: {id or name: {type: {field: value}}}",
    )
    error_details: bool = Field(
        False, description="clients read errors in full; else a sentence and the execution's id (`make up`: true)"
    )
    encryption_key: SecretStr | None = Field(None, description="any long text: encrypts stored credentials")
    log_level: str = Field("info", pattern="^(debug|info|warning|error)$", description="debug, info, warning, error")
    openai_api_key: SecretStr | None = Field(
        None,
        validation_alias=AliasChoices("CONVOQ_OPENAI_API_KEY", "OPENAI_API_KEY"),
        description="key of OpenAI Chat Model nodes that have no credential (also OPENAI_API_KEY)",
    )
    openai_base_url: Address = Field(
        "https://api.openai.com/v1",
        repr=False,
        validation_alias=AliasChoices("CONVOQ_OPENAI_BASE_URL", "OPENAI_BASE_URL"),
        description="base URL of OpenAI Chat Model nodes that name none (also OPENAI_BASE_URL)",
    )

    @field_validator("timezone")
    @classmethod
    def _as_known(cls, name: str) -> str:
        try:
            ZoneInfo(name)
        except (ValueError, ZoneInfoNotFoundError):
            raise ValueError("no such time zone") from None
        return name

    @field_validator("prefix")
    @classmethod
    def _as_in_keys(cls, prefix: str) -> str:
        if prefix != keys.INSTALLATION:
            raise ValueError(
                f"keys of this process begin with {keys.INSTALLATION!r}: set {keys.VARIABLE} before it starts"
            )
        return prefix

    @property
    def session_records_ttl_s(self) -> int:
        """How long anything of a session may stay after its last execution."""
        return max(self.execution_ttl_s, self.failure_ttl_s, self.stream_ttl_s, self.memory_ttl_s)


def variables(name: str) -> tuple[str, ...]:
    """The environment variables of a setting, the one to name first."""
    alias = Settings.model_fields[name].validation_alias
    if isinstance(alias, AliasChoices):
        return tuple(str(choice) for choice in alias.choices if choice != name)
    return (PREFIX + name.upper(),)


def file_variable(name: str) -> str | None:
    """The variable that names a file with the setting's value, for a setting that is or holds a secret."""
    return f"{variables(name)[0]}_FILE" if _is_secret(name) or _is_address(name) else None


def _is_secret(name: str) -> bool:
    return SecretStr in _types(Settings.model_fields[name])


def _is_address(name: str) -> bool:
    return any(getattr(part, "func", None) is _sound for part in Settings.model_fields[name].metadata)


def _types(field: FieldInfo) -> tuple[Any, ...]:
    return getattr(field.annotation, "__args__", (field.annotation,))


def load_settings(**overrides: object) -> Settings:
    """Settings from the environment and the files it names, `overrides` (those not None) first.

    Raises `ConfigError` naming each bad one.
    """
    given = {key: value for key, value in overrides.items() if value is not None}
    try:
        return Settings(**{**dict(_from_files()), **given})  # type: ignore[arg-type]
    except ValidationError as error:
        faults = error.errors(include_url=False)
    lines = []
    for fault in faults:
        name = next(name for name in Settings.model_fields if str(fault["loc"][0]) in (name, *variables(name)))
        shown = addresses.shown(str(fault["input"])) if _is_address(name) else fault["input"]
        reason = fault["msg"].removeprefix("Value error, ")
        lines.append(f"{variables(name)[0]}={'…' if _is_secret(name) else repr(shown)}: {reason}")
    raise ConfigError("; ".join(lines))


def _from_files() -> Iterator[tuple[str, str]]:
    """Name and value of each setting whose value is in a file, as containers get their secrets."""
    for name in Settings.model_fields:
        variable = file_variable(name)
        path = os.environ.get(variable) if variable is not None else None
        if not path:
            continue
        if (direct := variables(name)[0]) in os.environ:
            raise ConfigError(f"{direct} and {variable} are both set: keep one of them")
        try:
            value = Path(path).read_text(encoding="utf-8").rstrip("\r\n")
        except OSError as error:
            raise ConfigError(f"{variable}={path!r} cannot be read: {error.strerror}") from None
        except ValueError:
            raise ConfigError(f"{variable}={path!r} is not UTF-8 text") from None
        if not value:
            raise ConfigError(f"{variable}={path!r} is empty")
        yield name, value
