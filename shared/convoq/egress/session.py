"""The HTTP session of all nodes: connects only to what the rules allow, keeps no cookies, bounds what it reads."""

from __future__ import annotations

import errno
import re
import socket
from collections.abc import Callable
from contextlib import suppress
from ipaddress import ip_address
from typing import TYPE_CHECKING, Final

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.resolver import ThreadedResolver
from yarl import URL

from convoq.egress.rules import Rules, literal
from convoq.errors import EgressRefused, ResponseTooLarge

if TYPE_CHECKING:
    from aiohttp.connector import AddrInfoType

    from convoq.settings import Settings

MAX_BYTES: Final = 16 << 20
CONNECTIONS: Final = 200
_HOST: Final = re.compile(r"[A-Za-z0-9._-]{1,253}|\[?[0-9A-Fa-f:.]+\]?")
_SCHEMES: Final = ("http", "https")


class Egress:
    """One for a process, as a part of the services: `ctx.services.part(Egress)`.

    An address is looked at where it counts, after the name was resolved and before the socket connects, so that
    redirects and names whose address changes (DNS rebinding) are covered. `max_bytes` bounds an answer, unpacked.
    """

    def __init__(
        self,
        rules: Rules | None = None,
        max_bytes: int = MAX_BYTES,
        *,
        resolver: Callable[[], AbstractResolver] = ThreadedResolver,
        open_session: Callable[[], aiohttp.ClientSession] | None = None,
    ) -> None:
        self.rules = rules or Rules()
        self.max_bytes = max_bytes
        self._resolver = resolver
        self._open = open_session or self._open_session
        self._session: aiohttp.ClientSession | None = None

    @classmethod
    def of(cls, settings: Settings) -> Egress:
        """Raises `ConfigError`."""
        return cls(Rules.parse(settings.egress_allow), settings.egress_max_bytes)

    def session(self) -> aiohttp.ClientSession:
        """Made on first use, in the running loop. Whoever requests with it first lets `check` look at the URL."""
        if self._session is None:
            self._session = self._open()
        return self._session

    def _open_session(self) -> aiohttp.ClientSession:
        connector = aiohttp.TCPConnector(
            limit=CONNECTIONS,
            resolver=_Guarded(self._resolver(), self.rules),
            socket_factory=self._socket,
            ttl_dns_cache=10,
        )
        return aiohttp.ClientSession(connector=connector, cookie_jar=aiohttp.DummyCookieJar())

    def check(self, url: URL) -> URL:
        """The URL to connect to, an address in it written in full.

        Raises `EgressRefused` for a scheme other than HTTP's, a host that is none, an address that is refused.
        """
        host = url.raw_host or ""
        if url.scheme not in _SCHEMES:
            raise EgressRefused(f"an address should begin with http:// or https://, not with {url.scheme[:20]!r}")
        if not _HOST.fullmatch(host):
            raise EgressRefused(f"{host[:100]!r} is no name of a host")
        if (address := literal(host)) is None:
            return url
        self.rules.demand(host, [address])
        return url.with_host(str(address))

    async def check_beyond_proxy(self, url: URL) -> None:
        """As `check`, for a request that a proxy will send: it resolves the name, so that one is resolved here, too.

        A name that is known to the proxy alone passes.
        """
        self.check(url)
        if literal(host := url.raw_host or "") is None:
            with suppress(OSError):
                await _Guarded(self._resolver(), self.rules).resolve(host, url.port or 0, socket.AF_UNSPEC)

    async def read(self, response: aiohttp.ClientResponse) -> bytes:
        """The whole body, unpacked. Raises `ResponseTooLarge`."""
        parts, size = [], 0
        async for part in response.content.iter_any():
            size += len(part)
            if size > self.max_bytes:
                response.close()
                raise ResponseTooLarge(
                    f"the answer of {response.url.host} has more than {self.max_bytes} bytes (CONVOQ_EGRESS_MAX_BYTES)"
                )
            parts.append(part)
        return b"".join(parts)

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()

    def _socket(self, info: AddrInfoType) -> socket.socket:
        family, kind, protocol, _, where = info
        host = str(where[0]).partition("%")[0]
        try:
            allowed = self.rules.allows_address(ip_address(host))
        except ValueError:  # a form of address that only the system's resolver understands
            allowed = False
        if not allowed:
            raise PermissionError(errno.EACCES, f"connections to {host} are not allowed")
        return socket.socket(family, kind, protocol)


class _Guarded(AbstractResolver):
    """A resolver, without the addresses that are refused."""

    def __init__(self, inner: AbstractResolver, rules: Rules) -> None:
        self._inner = inner
        self._rules = rules

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        found = await self._inner.resolve(host, port, family)
        addresses = {entry["host"]: ip_address(entry["host"].partition("%")[0]) for entry in found}
        self._rules.demand(host, addresses.values())
        return [entry for entry in found if self._rules.allows(host, addresses[entry["host"]])]

    async def close(self) -> None:
        await self._inner.close()
