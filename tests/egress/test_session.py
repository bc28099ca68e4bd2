"""Attacks on what must not be reached, each by the door that nodes use."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import Awaitable, Callable

import aiohttp
import pytest
from aiohttp import web
from yarl import URL

from convoq.errors import EgressRefused, RequestFailed, ResponseTooLarge
from convoq.nodes.http.request import Auth, Request
from convoq.nodes.http.send import send
from tests.http.server import Handler, Names, Server, egress, says, serving


def against(handler: Handler, attack: Callable[[Server], Awaitable[None]]) -> Server:
    """Run an attack while a server listens on the loopback; what the server was asked is told."""

    async def run() -> Server:
        async with serving(handler) as server:
            await attack(server)
            return server

    return asyncio.run(run())


@pytest.mark.parametrize(
    "host",
    [
        *("127.0.0.1", "localhost", "127.0.0.1.", "127.1", "127.000.000.001", "0", "0.0.0.0"),
        *("2130706433", "0x7f000001", "0x7f.0.0.1", "0177.0.0.1", "017700000001"),
        *("[::1]", "[::]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[0:0:0:0:0:ffff:127.0.0.1]", "[::127.0.0.1]"),
        *("①②⑦.⓪.⓪.①", "127。0。0。1", "public.example@127.0.0.1", "user:pw@[::1]"),
    ],
)
def test_no_form_of_the_loopback_is_reached(host: str) -> None:
    async def attack(server: Server) -> None:
        async with egress(allow="") as guarded:
            with pytest.raises(EgressRefused):
                await send(guarded, Request("GET", f"http://{host}:{server.port}/"))

    assert against(says({}), attack).asked == []


@pytest.mark.parametrize(
    "url", ["file:///etc/passwd", "gopher://127.0.0.1/", "ftp://h/", "//127.0.0.1/", "127.0.0.1", ""]
)
def test_no_other_scheme(url: str) -> None:
    async def attack(server: Server) -> None:
        async with egress() as guarded:
            with pytest.raises(RequestFailed, match="must begin with http"):
                await send(guarded, Request("GET", url))

    against(says({}), attack)


@pytest.mark.parametrize(
    "url", ["http://", "http://a b/", "http://127.0.0.1 x/", "http://[::1", "http://h:99999/", "http://-_-\x00/"]
)
def test_no_host_that_is_none(url: str) -> None:
    async def attack(server: Server) -> None:
        async with egress() as guarded:
            with pytest.raises(RequestFailed):
                await send(guarded, Request("GET", url))

    against(says({}), attack)


def test_a_name_that_leads_to_a_private_address() -> None:
    async def attack(server: Server) -> None:
        async with egress(allow="", names=Names({"metadata.example": [["169.254.169.254"]]})) as guarded:
            with pytest.raises(EgressRefused, match=r"metadata.example \(169.254.169.254\)"):
                await send(guarded, Request("GET", f"http://metadata.example:{server.port}/"))

    assert against(says({}), attack).asked == []


def test_a_name_whose_address_changes_after_it_was_looked_at() -> None:
    """DNS rebinding: an address is looked at each time that one is connected to."""

    async def attack(server: Server) -> None:
        names = Names({"rebind.example": [["127.0.0.1"], ["10.0.0.1"]]}, server.port)
        async with egress(names=names) as guarded:
            await send(guarded, Request("GET", "http://rebind.example/"))
            connector = guarded.session().connector
            assert isinstance(connector, aiohttp.TCPConnector)
            connector.clear_dns_cache()
            with pytest.raises(EgressRefused):
                await send(guarded, Request("GET", "http://rebind.example/"))
        assert names.asked == ["rebind.example"] * 2

    assert len(against(says({}, connection="close"), attack).asked) == 1


def test_of_several_addresses_the_refused_are_left_out() -> None:
    async def attack(server: Server) -> None:
        async with egress(names=Names({"mixed.example": [["10.0.0.1", "127.0.0.1"]]}, server.port)) as guarded:
            assert (await send(guarded, Request("GET", "http://mixed.example/"))).status == 200

    assert len(against(says({}), attack).asked) == 1


def test_an_allowed_name_does_not_open_its_address_to_others() -> None:
    async def attack(server: Server) -> None:
        names = Names({"allowed.example": [["127.0.0.1"]], "evil.example": [["127.0.0.1"]]}, server.port)
        async with egress(allow="allowed.example", names=names) as guarded:
            await send(guarded, Request("GET", "http://allowed.example/"))
            for host in ("evil.example", f"127.0.0.1:{server.port}"):
                with pytest.raises(EgressRefused):
                    await send(guarded, Request("GET", f"http://{host}/"))

    assert len(against(says({}), attack).asked) == 1


@pytest.mark.parametrize(
    "target", ["http://127.0.0.2/", "http://[::1]/", "http://evil.example/", "file:///etc/passwd", "//0x7f.2/"]
)
def test_a_redirect_is_looked_at_like_a_request(target: str) -> None:
    async def attack(server: Server) -> None:
        async with egress(names=Names({"evil.example": [["10.0.0.1"]]})) as guarded:
            with pytest.raises(RequestFailed) as refused:
                await send(guarded, Request("GET", f"{server.url}/"))
            assert isinstance(refused.value, EgressRefused) or "must begin with http" in refused.value.message

    assert len(against(says({}, 302, location=target), attack).asked) == 1


def test_the_socket_has_the_last_look() -> None:
    """For whoever forgets to check a URL."""

    async def attack(server: Server) -> None:
        async with egress(allow="") as guarded:
            for host in ("127.0.0.1", "[::ffff:127.0.0.1]"):
                with pytest.raises(OSError, match="not allowed"):
                    await guarded.session().get(URL(f"http://{host}:{server.port}/"))

    assert against(says({}), attack).asked == []


def test_a_proxy_is_looked_at_and_so_is_what_lies_beyond_it() -> None:
    async def attack(server: Server) -> None:
        names = Names({"inside.example": [["10.0.0.1"]]})
        async with egress(allow="", names=names) as guarded:
            with pytest.raises(EgressRefused):
                await send(guarded, Request("GET", "http://public.example/", proxy=server.url))
        async with egress(names=names) as guarded:
            for url in ("http://10.0.0.1/", "http://inside.example/"):
                with pytest.raises(EgressRefused):
                    await send(guarded, Request("GET", url, proxy=server.url))
            found = await send(guarded, Request("GET", "http://known.to.the.proxy.example/x", proxy=server.url))
            assert found.status == 200

    asked = against(says({}), attack).asked
    assert [one.headers["host"] for one in asked] == ["known.to.the.proxy.example"]


def test_credentials_stay_with_their_origin() -> None:
    async def elsewhere(request: web.Request) -> web.StreamResponse:
        return web.json_response({})

    async def run() -> None:
        async with serving(elsewhere) as other, egress() as guarded:
            async with serving(says({}, 302, location=f"{other.url}/there")) as server:
                auth = Auth(headers={"X-Api-Key": "secret-key"}, query=(("key", "secret-key"),))
                own = {"authorization": "Bearer secret", "cookie": "a=b", "x-plain": "1"}
                await send(guarded, Request("GET", f"{server.url}/here", headers=own, auth=auth))
                assert server.last.headers["x-api-key"] == "secret-key" and server.last.query == "key=secret-key"
                assert not {"x-api-key", "authorization", "cookie"} & set(other.last.headers)
                assert other.last.headers["x-plain"] == "1" and other.last.query == ""

    asyncio.run(run())


def test_a_credential_that_may_go_to_some_hosts_only() -> None:
    async def attack(server: Server) -> None:
        async with egress() as guarded:
            for domains in ([], ["api.example", "*.example"]):
                with pytest.raises(EgressRefused, match=r"may not be sent to 127\.0\.0\.1"):
                    await send(guarded, Request("GET", server.url, auth=Auth(headers={"k": "v"}, domains=domains)))

    assert against(says({}), attack).asked == []


def test_cookies_are_kept_for_nobody() -> None:
    async def attack(server: Server) -> None:
        async with egress() as guarded:
            for _ in range(2):
                found = await send(guarded, Request("GET", f"{server.url}/"))
                assert found.headers["set-cookie"] == ["a=b"]

    asked = against(says({}, set_cookie="a=b"), attack).asked
    assert len(asked) == 2 and all("cookie" not in one.headers for one in asked)


@pytest.mark.parametrize("packed", [False, True])
def test_an_answer_that_is_too_large(packed: bool) -> None:
    """Packed, 5 kB become 5 MB."""

    async def endless(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"content-encoding": "gzip"} if packed else {})
        await response.prepare(request)
        await response.write(gzip.compress(b"\0" * 5_000_000) if packed else b"x" * 200_000)
        return response

    async def attack(server: Server) -> None:
        async with egress(max_bytes=100_000) as guarded:
            with pytest.raises(ResponseTooLarge, match="more than 100000 bytes"):
                await send(guarded, Request("GET", f"{server.url}/"))

    against(endless, attack)


def test_nothing_smuggles_a_line_into_a_request() -> None:
    async def attack(server: Server) -> None:
        async with egress() as guarded:
            await send(guarded, Request("GET", f"{server.url}/a\r\nx-evil: 1\r\n?b\r\nc"))
            for headers in ({"a\r\nx-evil": "1"}, {"a": "1\r\nx-evil: 1"}):
                with pytest.raises(RequestFailed):
                    await send(guarded, Request("GET", f"{server.url}/", headers=headers))

    asked = against(says({}), attack).asked
    assert len(asked) == 1 and "x-evil" not in asked[0].headers
