"""Credentials at rest, and how a node's is found."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from convoq import keys
from convoq.contract.services import ImpliedCredential
from convoq.credentials.environment import VARIABLES, credential_from_environment
from convoq.credentials.lookup import CredentialLookup
from convoq.credentials.vault import Vault
from convoq.errors import BadRequest, ConfigError, NotFound
from convoq.redis import Pipe, async_client
from convoq.settings import Settings

SETTINGS = Settings.model_validate({"encryption_key": "a long text"})


def with_redis(url: str, body: Callable[[Pipe], Awaitable[None]]) -> None:
    async def main() -> None:
        async with async_client(url) as client, Pipe(client) as pipe:
            await pipe.command("DEL", keys.CREDENTIALS)
            await body(pipe)

    asyncio.run(main())


def test_what_is_stored_can_be_found_and_not_read(redis_url: str) -> None:
    async def body(pipe: Pipe) -> None:
        vault = Vault(pipe, SETTINGS)
        mine = await vault.add("Mine", "openAiApi", {"apiKey": "sk-verysecret"})
        await vault.add("Other", "slackApi", {"accessToken": "xoxb"})
        held = b"".join(await pipe.command("HGETALL", keys.CREDENTIALS))
        assert b"verysecret" not in held and b"Mine" in held
        assert await vault.find("openAiApi", {"id": mine.id}) == ({"apiKey": "sk-verysecret"}, True)
        assert await vault.find("openAiApi", {"id": "old", "name": "Mine"}) == ({"apiKey": "sk-verysecret"}, True)
        assert await vault.find("openAiApi", {"name": "Nobody's"}) == ({"apiKey": "sk-verysecret"}, False)
        assert await vault.find("redis", {"name": "Mine"}) is None

    with_redis(redis_url, body)


def test_the_same_name_and_type_replaces(redis_url: str) -> None:
    async def body(pipe: Pipe) -> None:
        vault = Vault(pipe, SETTINGS)
        first = await vault.add("Mine", "openAiApi", {"apiKey": "one"})
        again = await vault.add("Mine", "openAiApi", {"apiKey": "two"})
        assert again.id == first.id
        assert [(one.name, one.type) for one in await vault.list()] == [("Mine", "openAiApi")]
        assert await vault.find("openAiApi", {}) == ({"apiKey": "two"}, False)
        await vault.add("Mine", "slackApi", {"accessToken": "t"})
        with pytest.raises(BadRequest, match="2 credentials are called 'Mine'"):
            await vault.remove("Mine")
        await vault.remove(first.id)
        await vault.remove("Mine")
        with pytest.raises(NotFound):
            await vault.remove("Mine")

    with_redis(redis_url, body)


def test_another_key_and_no_key(redis_url: str) -> None:
    async def body(pipe: Pipe) -> None:
        await Vault(pipe, SETTINGS).add("Mine", "openAiApi", {"apiKey": "sk-verysecret"})
        other = Settings.model_validate({"encryption_key": "another text"})
        with pytest.raises(ConfigError, match="'Mine' was stored with another CONVOQ_ENCRYPTION_KEY"):
            await Vault(pipe, other).find("openAiApi", {"name": "Mine"})
        with pytest.raises(ConfigError, match="CONVOQ_ENCRYPTION_KEY is not set"):
            await Vault(pipe, Settings()).add("x", "y", {"z": "1"})
        for bad in ({}, {"k": "x" * 300_000}):
            with pytest.raises(BadRequest):
                await Vault(pipe, SETTINGS).add("x", "y", bad)

    with_redis(redis_url, body)


def test_the_environment(tmp_path: Path) -> None:
    assert credential_from_environment("openAiApi", {"OPENAI_API_KEY": "k"}) == {"apiKey": "k"}
    assert credential_from_environment("openAiApi", {"OPENAI_BASE_URL": "http://x"}) is None
    assert credential_from_environment("unknownApi", {"OPENAI_API_KEY": "k"}) is None
    (tmp_path / "secret").write_text("from a file\n")
    assert credential_from_environment("groqApi", {"GROQ_API_KEY_FILE": str(tmp_path / "secret")}) == {
        "apiKey": "from a file"
    }
    assert credential_from_environment("groqApi", {"GROQ_API_KEY_FILE": str(tmp_path / "gone")}) is None
    assert all(fields for fields in VARIABLES.values())


def test_the_meant_one_comes_before_one_of_its_type(
    redis_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GROQ_API_KEY", "environment")
    file = tmp_path / "c.json"
    file.write_text('{"Filed": {"groqApi": {"apiKey": "file"}}}')
    settings = SETTINGS.model_copy(update={"credentials_file": str(file)})

    async def body(pipe: Pipe) -> None:
        lookup = CredentialLookup(settings, pipe)
        assert await lookup("groqApi", {"name": "Filed"}) == {"apiKey": "file"}
        implied = await lookup("groqApi", {"name": "Unknown"})
        assert implied == {"apiKey": "file"} and isinstance(implied, ImpliedCredential)
        await Vault(pipe, settings).add("Stored", "groqApi", {"apiKey": "vault"})
        found = await CredentialLookup(settings, pipe)("groqApi", {"name": "Stored"})
        assert found == {"apiKey": "vault"} and not isinstance(found, ImpliedCredential)
        assert await CredentialLookup(SETTINGS)("groqApi", {}) == {"apiKey": "environment"}
        assert await CredentialLookup(SETTINGS)("slackApi", {}) is None

    with_redis(redis_url, body)
