"""Secrets that come from files, as containers mount them."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import SecretStr

from convoq.errors import ConfigError
from convoq.settings import Settings, file_variable, load_settings
from tests.cli.support import convoq

SECRET = "hunter2"


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CONVOQ_REDIS_URL", "CONVOQ_API_KEY", "OPENAI_API_KEY", "CONVOQ_OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)


def secret_fields() -> list[str]:
    return [name for name in Settings.model_fields if file_variable(name)]


def test_every_setting_that_holds_a_secret_has_a_file() -> None:
    for name, field in Settings.model_fields.items():
        if SecretStr in getattr(field.annotation, "__args__", (field.annotation,)):
            assert name in secret_fields()
    assert {"redis_url", "api_key", "openai_api_key", "openai_base_url"} <= set(secret_fields())


@pytest.mark.parametrize("name", secret_fields())
def test_a_file_gives_the_value(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "secret"
    file.write_text("redis://:p%40ss@host:6379/0\n")
    monkeypatch.setenv(str(file_variable(name)), str(file))
    settings = load_settings()
    value = getattr(settings, name)
    assert (value.get_secret_value() if isinstance(value, SecretStr) else value) == "redis://:p%40ss@host:6379/0"
    assert name in settings.model_fields_set


def test_what_cannot_be_read_is_named_without_its_content(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "secret"
    for content, reason in (
        (None, "cannot be read: No such file"),
        (b"", "is empty"),
        (b"\n", "is empty"),
        (b"\xff" + SECRET.encode(), "is not UTF-8 text"),
        (f"redis://:{SECRET}/@host".encode(), "percent-encode"),
    ):
        if content is not None:
            file.write_bytes(content)
        monkeypatch.setenv("CONVOQ_REDIS_URL_FILE", str(file))
        with pytest.raises(ConfigError, match=reason) as raised:
            load_settings()
        assert "CONVOQ_REDIS_URL" in raised.value.message
        assert SECRET not in raised.value.message


def test_a_value_and_a_file_are_one_too_many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "key").write_text(SECRET)
    monkeypatch.setenv("CONVOQ_API_KEY", "other")
    monkeypatch.setenv("CONVOQ_API_KEY_FILE", str(tmp_path / "key"))
    with pytest.raises(ConfigError, match="CONVOQ_API_KEY and CONVOQ_API_KEY_FILE are both set"):
        load_settings()


@pytest.mark.parametrize("command", ["api", "worker", "up", "list", "sessions"])
def test_every_command_names_an_unencoded_password(command: str, tmp_path: Path) -> None:
    done = convoq(command, cwd=tmp_path, env={"CONVOQ_REDIS_URL": "redis://:a@b/c#d@127.0.0.1:1/0"})
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("error: CONVOQ_REDIS_URL='redis://…@127.0.0.1:1/0': percent-encode the password")
    assert len(done.stderr.splitlines()) == 1
