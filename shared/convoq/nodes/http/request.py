"""A request and a response, as data."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import quote, urlsplit

from yarl import URL

from convoq.errors import RequestFailed

Pairs = Sequence[tuple[str, str]]
Sign = Callable[[str, URL, bytes], Mapping[str, str]]
"""From method, URL and body the headers that sign them."""
TIMEOUT_S: Final = 300.0
MAX_REDIRECTS: Final = 21
"""Both n8n's."""


@dataclass(frozen=True, slots=True)
class Auth:
    """What a credential adds to a request. It goes to the origin of the request's URL only, to no other one that a
    redirect leads to. `digest` is a user and a password; `domains` are the only ones it may be sent to, unless None."""

    headers: Mapping[str, str] = field(default_factory=dict)
    query: Pairs = ()
    body: Mapping[str, object] = field(default_factory=dict)
    digest: tuple[str, str] | None = None
    sign: Sign | None = None
    domains: Sequence[str] | None = None


@dataclass(frozen=True, slots=True)
class Request:
    """`max_redirects` 0 gives a redirect as the response. `verify` is that of the server's certificate."""

    method: str
    url: str
    query: Pairs = ()
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None
    auth: Auth = field(default_factory=Auth)
    timeout_s: float = TIMEOUT_S
    max_redirects: int = MAX_REDIRECTS
    verify: bool = True
    proxy: str | None = None


@dataclass(frozen=True, slots=True)
class Response:
    """`headers` have lower-case names; one that came several times is joined by commas, cookies stay a list. `url` is
    where it came from in the end."""

    status: int
    reason: str
    headers: Mapping[str, str | list[str]]
    body: bytes
    url: URL

    @property
    def content_type(self) -> str:
        """The media type, lower-case, without its parameters."""
        return str(self.headers.get("content-type", "")).partition(";")[0].strip().lower()

    @property
    def charset(self) -> str | None:
        found = re.search(r"charset\s*=\s*\"?([\w.:-]+)", str(self.headers.get("content-type", "")), re.I)
        return found[1] if found else None


def url_of(text: str, query: Pairs = ()) -> URL:
    """The URL as a browser would send it, with `query` behind what it has. Raises `RequestFailed`."""
    given = text.strip()
    shown = given[:200]
    if not re.match(r"https?:", given, re.I):
        raise RequestFailed(f"invalid URL {shown!r}: it must begin with http:// or https://")
    try:
        parts = urlsplit(given)
        origin = URL(f"{parts.scheme}://{parts.netloc}")
    except ValueError as error:
        raise RequestFailed(f"invalid URL {shown!r}: {error}") from None
    if not origin.raw_host:
        raise RequestFailed(f"invalid URL {shown!r}: it has no host")
    asked = "&".join(part for part in (_escaped(parts.query), encoded(query)) if part)
    path = _escaped(parts.path) or "/"
    return URL(f"{str(origin).rstrip('/')}{path}{'?' if asked else ''}{asked}", encoded=True)


def encoded(query: Pairs) -> str:
    """As JavaScript's `encodeURIComponent` does it: a space is `%20`."""
    return "&".join(f"{quote(name, safe=_SAFE)}={quote(value, safe=_SAFE)}" for name, value in query)


_SAFE: Final = "-_.!~*'()"


def _escaped(text: str) -> str:
    """What cannot stand in a URL in its escaped form; what is escaped already stays."""
    return re.sub(r"%(?![0-9A-Fa-f]{2})|[^\x21-\x7e]|[\"<>\\^`{|}]", lambda found: quote(found[0], safe=""), text)
