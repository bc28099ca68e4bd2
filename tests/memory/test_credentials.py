"""Fields of credentials: each is acted on or named in an error; and TLS, on servers with certificates of their own."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import trustme

from convoq.contract.memory import Memory
from convoq.errors import MemoryFailed, NodeFailed
from convoq.ids import new_execution_id
from convoq.memory.mongo import MongoMemory
from convoq.memory.n8n_list import N8nListMemory
from convoq.memory.pools import Pools
from convoq.memory.postgres import PostgresMemory
from convoq.memory.servers import MongoCredential, PostgresCredential, RedisCredential, ServerCredential
from tests.chaos.proxy import Proxy
from tests.memory.contract import numbered, turn
from tests.memory.test_memories import redis_fields
from tests.mongo import mongo
from tests.pgbouncer import pgbouncer

CREDENTIALS: dict[str, type[ServerCredential]] = {
    "redis": RedisCredential,
    "postgres": PostgresCredential,
    "mongoDb": MongoCredential,
}


@pytest.mark.parametrize(
    ("kind", "fields", "said"),
    [
        ("redis", {"host": "h", "sslmode": "require"}, "field 'sslmode' is set, but convoq does not know it; it knows"),
        ("redis", {"host": "h", "port": "hush"}, "port: "),
        (
            "postgres",
            {"sshTunnel": True, "sshHost": "hush"},
            "field 'sshTunnel' is set, but convoq opens no",
        ),
        ("postgres", {"ssl": "hush"}, "ssl: "),
        ("postgres", {"connectionString": "postgres://u:hush@h/d"}, "field 'connectionString' is set, but"),
        (
            "mongoDb",
            {"replicaSet": "hush"},
            "field 'replicaSet' is set, but convoq does not know it; it knows ca,",
        ),
        ("mongoDb", {"configurationType": "connectionString"}, "'connectionString' is empty"),
    ],
)
def test_a_field_that_is_not_acted_on(kind: str, fields: dict[str, Any], said: str) -> None:
    with pytest.raises(NodeFailed) as failed:
        credential = CREDENTIALS[kind].read(fields)
        assert isinstance(credential, MongoCredential)
        credential.address()
    assert failed.value.message.startswith(f"credential of type {kind!r}: ")
    assert said in failed.value.message
    assert "hush" not in failed.value.message


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        ("redis", {"host": "h", "disableTlsVerification": False, "password": None, "note": ""}),
        (
            "postgres",
            {"sshTunnel": False, "sshAuthenticateWith": "password", "sshHost": "localhost", "sshPort": 22}
            | {"sshUser": "root", "sshPassword": "", "maxConnections": 100, "allowUnauthorizedCerts": False},
        ),
        ("mongoDb", {"configurationType": "values", "tls": False, "ca": "", "cert": "", "key": "", "passphrase": ""}),
    ],
)
def test_what_n8n_always_writes_is_no_fault(kind: str, fields: dict[str, Any]) -> None:
    CREDENTIALS[kind].read(fields)


@pytest.mark.parametrize(
    ("fields", "address"),
    [
        ({"host": "h", "user": "u", "password": "p"}, ("h", 27017, {"username": "u", "password": "p"})),
        ({"host": "h", "port": None}, ("mongodb+srv://h", None, {})),
        ({"host": "h", "port": 0, "configurationType": "values"}, ("mongodb+srv://h", None, {})),
        ({"host": "h", "connectionString": " mongodb://x "}, ("mongodb://x", None, {})),
        ({"host": "h", "connectionString": "mongodb://x", "configurationType": "values"}, ("h", 27017, {})),
    ],
)
def test_addresses_of_mongodb(fields: dict[str, Any], address: tuple[Any, ...]) -> None:
    assert MongoCredential.read(fields).address() == address


@dataclass(frozen=True)
class Certificates:
    """By an authority that nobody knows: of the server `localhost`, and of a client."""

    folder: Path
    authority: trustme.CA
    server: trustme.LeafCert
    client: trustme.LeafCert

    @property
    def ca(self) -> str:
        return self.authority.cert_pem.bytes().decode()

    def file(self, *pems: trustme.Blob) -> str:
        path = self.folder / f"{len(list(self.folder.iterdir()))}.pem"
        path.write_bytes(b"".join(pem.bytes() for pem in pems))
        return str(path)


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    authority = trustme.CA()
    server, client = authority.issue_cert("localhost"), authority.issue_cert("client@example.org")
    return Certificates(tmp_path_factory.mktemp("certificates"), authority, server, client)


Opened = Callable[[Pools, dict[str, Any]], Awaitable[Memory]]


async def check(opened: Opened, good: list[dict[str, Any]], refused: list[dict[str, Any]]) -> None:
    """The fields of `good` lead to a memory that works, those of `refused` to an error that names the certificate."""
    pools = Pools()
    for fields in good:
        memory = await opened(pools, fields)
        await memory.append(turn(1))
        assert numbered(await memory.load()) == [1]
        await memory.clear()
    for fields in refused:
        with pytest.raises(MemoryFailed, match=r"(?i)certificate"):
            await (await opened(pools, fields)).load()
    await pools.close()


def test_tls_of_redis(certificates: Certificates, redis_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def opened(pools: Pools, fields: dict[str, Any]) -> Memory:
        return N8nListMemory(pools.redis(fields), f"tls:{new_execution_id()}", window=5, ttl_s=60)

    async def main() -> None:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        certificates.server.configure_cert(context)
        proxy = Proxy(redis_fields(redis_url)["port"], context)
        await proxy.start()
        fields = {"host": "localhost", "port": proxy.port, "ssl": True}
        await check(opened, [{**fields, "disableTlsVerification": True}], [fields])
        monkeypatch.setenv("SSL_CERT_FILE", certificates.file(certificates.authority.cert_pem))
        await check(opened, [fields], [{**fields, "host": "127.0.0.1"}])
        await proxy.stop()

    asyncio.run(main())


def test_tls_of_postgres(
    certificates: Certificates, postgres_fields: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """PgBouncer's, for the suite's PostgreSQL is built without it."""

    async def opened(pools: Pools, fields: dict[str, Any]) -> Memory:
        return PostgresMemory(await pools.postgres(fields, "tls"), "s", window=5, claims=None)

    (certificate,), key = certificates.server.cert_chain_pems, certificates.server.private_key_pem
    files = {"client_tls_cert_file": certificate.bytes(), "client_tls_key_file": key.bytes()}
    with pgbouncer(postgres_fields, client_tls_sslmode="require", files=files) as there:
        fields = {**there, "host": "localhost"}
        refused = [{**fields, "ssl": name} for name in ("require", "allow", "verify", "verify-full")]
        asyncio.run(check(opened, [{**fields, "allowUnauthorizedCerts": True}, {**fields, "ssl": "prefer"}], refused))
        monkeypatch.setenv("SSL_CERT_FILE", certificates.file(certificates.authority.cert_pem))
        other_name = {**there, "ssl": "require"}
        asyncio.run(check(opened, [*refused, {**other_name, "ssl": "verify-ca"}], [other_name]))


def test_tls_of_mongodb(certificates: Certificates, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("convoq.memory.mongo.SELECT_S", 2.0)

    async def opened(pools: Pools, fields: dict[str, Any]) -> Memory:
        return MongoMemory(pools.mongo(fields, "db", "c"), "s", window=5, claims=None)

    client, authority = certificates.client, certificates.authority.cert_pem
    files = [certificates.file(certificates.server.private_key_and_cert_chain_pem), certificates.file(authority)]
    with mongo("--tlsMode", "requireTLS", "--tlsCertificateKeyFile", files[0], "--tlsCAFile", files[1]) as server:
        fields = {"host": "localhost", "port": server.port, "tls": True}
        pems = {
            "ca": certificates.ca,
            "cert": client.cert_chain_pems[0].bytes().decode(),
            "key": client.private_key_pem.bytes().decode(),
        }
        as_n8n_has_them = {name: " ".join(pem.split("\n")) for name, pem in pems.items()}
        asyncio.run(check(opened, [{**fields, **pems}, {**fields, **as_n8n_has_them}], [fields]))
