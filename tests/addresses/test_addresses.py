"""Passwords in addresses: however they were written, nobody prints them."""

from __future__ import annotations

import io
import logging
from collections.abc import Callable
from urllib.parse import quote, urlsplit

import aiohttp
import pytest
import structlog
from hypothesis import example, given, settings
from hypothesis import strategies as st

from convoq.addresses import fault, scrub, shown
from convoq.errors import ConvoqError, NodeFailed
from convoq.logs import configure_logs
from convoq.memory.mongo import connect as mongo
from convoq.memory.pools import Pools
from convoq.memory.servers import MongoCredential, PostgresCredential
from convoq.models.openai import OpenAIModel
from convoq.redis import async_client, sync_client
from convoq.settings import Settings, load_settings

MARK = "hunter2"
PASSWORDS = st.text(st.characters(exclude_categories=["Cs"]), max_size=30).map(lambda text: MARK + text + MARK)
ADDRESSES = (
    "redis://:{}@host.example:6379/0",
    "rediss://user:{}@host.example/1?ssl_cert_reqs=none",
    "redis+sentinel://user:{}@host.example:26379,other:26379/service/0",
    "unix://user:{}@/run/valkey.sock",
    "postgres://user:{}@host.example:5432/db",
    "mongodb://user:{}@host.example:27017,other:27018/db",
    "https://user:{}@host.example/v1",
    "http://{}@proxy.example:3128",
)
awkward = [
    example("a@b/c#d"),
    example("a:b"),
    example("[x"),
    example("]"),
    example("?"),
    example("℀"),
    example(" "),
    example("\n"),
    example("%"),
    example("://@"),
]


def awkwardly(test: Callable[..., None]) -> Callable[..., None]:
    for one in awkward:
        test = one(test)
    return settings(deadline=None)(test)  # a busy machine, and imports at the first call


@pytest.mark.parametrize("address", ADDRESSES)
def test_nothing_before_the_last_at_is_shown(address: str) -> None:
    @awkwardly
    @given(PASSWORDS)
    def holds(password: str) -> None:
        written = address.format(password)
        scheme, _, rest = written.partition("://")
        place = rest.rpartition("@")[2].partition("?")
        assert shown(written) == f"{scheme}://…@{place[0]}{'?…' if place[1] else ''}"
        assert MARK not in str(fault(written))

    holds()


@settings(deadline=None)
@given(PASSWORDS)
def test_a_password_that_is_encoded_is_no_fault_and_arrives(password: str) -> None:
    encoded = quote(password, safe="")
    assert fault(f"redis://user:{encoded}@host:6379/0") is None
    client = sync_client(f"redis://user:{encoded}@host:6379/0")
    assert client.connection_pool.connection_kwargs["password"] == password
    sentinel = sync_client(f"redis+sentinel://user:{encoded}@host/service/3")
    options = sentinel.connection_pool.connection_kwargs
    assert (options["username"], options["password"], options["db"]) == ("user", password, 3)


@pytest.mark.parametrize(
    "address",
    [
        "redis://:a@b/c#d@host/0",
        "redis://:a/b@host",
        "redis://:a?b@host",
        "redis://:a#b@h",
        "redis://:[a@h",
        "redis://:a b@h",
        "http://a@b@h",
    ],
)
def test_a_password_that_is_not_encoded_is_a_named_fault(address: str) -> None:
    assert "percent-encode the password" in str(fault(address))


@pytest.mark.parametrize(
    "address",
    [
        "redis://127.0.0.1:6379/0",
        "redis://host",
        "unix:///run/user@1000/valkey.sock?db=0",
        "rediss://u:p@[::1]:6379/0",
        "redis://[::1]",
        "redis+sentinel://a:1,b:2/s/0",
        "https://host/v1",
        "redis://u:a:b@h:1",
    ],
)
def test_sound_addresses(address: str) -> None:
    assert fault(address) is None


@pytest.mark.parametrize(
    ("address", "text"),
    [
        ("redis://default:hunter2", "redis://…"),
        ("redis://:hunter2/0", "redis://…"),
        ("user:hunter2@host:5432", "…@host:5432"),
        ("redis://h/0?password=hunter2", "redis://h/0?…"),
        ("https://h/v1#hunter2", "https://h/v1#…"),
        ("redis://host:6379/0", "redis://host:6379/0"),
        ("redis://[::1]:6379/0", "redis://[::1]:6379/0"),
        ("redis://h\x1b[31m/0", "redis://h�[31m/0"),
        ("unix:///tmp/a:b.sock", "unix:///tmp/a:b.sock"),
        ("", ""),
    ],
)
def test_what_is_shown(address: str, text: str) -> None:
    assert shown(address) == text


def test_a_password_in_the_place_of_a_port() -> None:
    assert "port is not a number" in str(fault("redis://default:hunter2"))


DOORS: dict[str, Callable[[str], object]] = {
    "redis": lambda password: async_client(f"redis://:{password}@host:6379/0"),
    "redis for rq": lambda password: sync_client(f"rediss://me:{password}@host:6379/0"),
    "sentinel": lambda password: async_client(f"redis+sentinel://me:{password}@host:26379/service/0"),
    "no host": lambda password: async_client(f"redis://default:{password.replace('@', '')}"),
    "settings": lambda password: load_settings(redis_url=f"redis://:{password}@host:6379/0"),
    "model": lambda password: OpenAIModel(_no_http, "m", f"https://me:{password}@host/v1"),
    "mongodb": lambda password: mongo(MongoCredential(connectionString=f"mongodb://me:{password}@host/db")),
    "postgres": lambda password: PostgresCredential(host=f"me:{password}@host"),
    "memory's redis": lambda password: Pools().redis({"host": f"redis://me:{password}@host"}),
}


def _no_http() -> aiohttp.ClientSession:
    raise AssertionError


@pytest.mark.parametrize("door", DOORS)
def test_no_door_tells_the_password(door: str) -> None:
    @awkwardly
    @given(PASSWORDS)
    def holds(password: str) -> None:
        try:
            DOORS[door](password)
        except (ConvoqError, ValueError) as error:
            assert MARK not in str(error), str(error)

    holds()


@pytest.mark.parametrize("door", sorted(set(DOORS) - {"postgres"}))
def test_every_door_names_the_fault(door: str) -> None:
    with pytest.raises(ConvoqError, match=r"percent-encode|port is not a number|host's name alone"):
        DOORS[door]("a@b/c#d" if door != "no host" else "secret")


def test_settings_do_not_show_addresses() -> None:
    own = Settings(redis_url="redis://:hunter2@host:6379/0", openai_base_url="https://me:hunter2@host/v1")
    assert MARK not in repr(own) + str(own)


def test_what_others_say_is_scrubbed() -> None:
    assert scrub("cannot reach 'redis://:hunter2@h:1/0' (x@y)") == "cannot reach 'redis://…@h:1/0' (x@y)"
    assert scrub("write to me@example.com") == "write to me@example.com"
    assert NodeFailed("no answer from https://me:hunter2@h/v1").message == "no answer from https://…@h/v1"
    long = "a" * 200_000 + "://" * 50_000
    assert scrub(long + "@") == "a" * 200_000 + "://…@"


def test_the_log_has_no_password(monkeypatch: pytest.MonkeyPatch) -> None:
    output = io.StringIO()
    monkeypatch.setattr("sys.stderr", output)
    before = structlog.get_config()
    level = logging.getLogger("rq").level
    try:
        configure_logs(Settings())
        log = structlog.get_logger()
        try:
            raise ValueError("cannot parse https://me:hunter2@host/v1")
        except ValueError as error:
            log.error("failed", error=repr(error), exc_info=error)
    finally:
        structlog.configure(**before)
        logging.getLogger("rq").setLevel(level)
    assert r"https://\u2026@host/v1" in output.getvalue()
    assert MARK not in output.getvalue()


@settings(deadline=None)
@given(st.text())
def test_any_text_is_taken(text: str) -> None:
    assert isinstance(shown(text), str)
    if fault(text) is None:
        urlsplit(text)
    scrub(text)
