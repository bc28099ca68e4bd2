"""Sending a request: over the egress guard, redirects followed by hand, every failure as a `RequestFailed`."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Mapping
from typing import Final

import aiohttp
from multidict import CIMultiDict
from yarl import URL

from convoq.egress.session import Egress
from convoq.errors import EgressRefused, RequestFailed
from convoq.nodes.http.request import Auth, Request, Response, url_of

_PRIVATE_HEADERS: Final = ("authorization", "cookie", "proxy-authorization")
_REDIRECTS: Final = (301, 302, 303, 307, 308)


async def send(egress: Egress, request: Request) -> Response:
    """The answer, whatever its status. Raises `RequestFailed`; `details["cause"]` is then Node's name for what failed
    (`ECONNREFUSED`, …), which workflows know."""
    url = egress.check(url_of(request.url, (*request.query, *request.auth.query)))
    try:
        async with asyncio.timeout(request.timeout_s):
            return await _follow(egress, request, url)
    except TimeoutError:
        raise RequestFailed(
            f"{where(request.method, url)}: no answer within {request.timeout_s:g} s", cause="ECONNABORTED"
        ) from None
    except (aiohttp.ClientError, OSError, ValueError) as error:
        raise _failure(where(request.method, url), error) from None


def where(method: str, url: URL) -> str:
    """A request as messages name it: without the query, in which keys may stand."""
    return f"{method} {url.with_user(None).with_query(None).with_fragment(None)}"


async def _follow(egress: Egress, request: Request, url: URL) -> Response:
    method, body, headers = request.method, request.body, CIMultiDict(request.headers)
    auth = request.auth
    _check_domain(auth, url)
    headers.update(auth.headers)
    for _ in range(request.max_redirects + 1):
        response = await _once(egress, request, method, url, headers, body, auth)
        target = response.headers.get("location")
        if response.status not in _REDIRECTS or not request.max_redirects or not isinstance(target, str):
            return response
        following = egress.check(url_of(str(url.join(URL(target)))))
        if following.origin() != url.origin():
            for name in (*_PRIVATE_HEADERS, *auth.headers):
                headers.popall(name, None)
            auth = Auth()
        if (response.status in (301, 302) and method == "POST") or (response.status == 303 and method != "HEAD"):
            method, body = "GET", None
            for name in ("content-type", "content-length", "transfer-encoding"):
                headers.popall(name, None)
        url = following
    raise RequestFailed(
        f"{where(request.method, url)}: more than {request.max_redirects} redirects", cause="ERR_FR_TOO_MANY_REDIRECTS"
    )


async def _once(
    egress: Egress,
    request: Request,
    method: str,
    url: URL,
    headers: Mapping[str, str],
    body: bytes | None,
    auth: Auth,
) -> Response:
    sent = CIMultiDict(headers)
    if auth.sign is not None:
        sent.update(auth.sign(method, url, body or b""))
    if request.proxy is not None:
        await egress.check_beyond_proxy(url)
    async with egress.session().request(
        method,
        url,
        headers=sent,
        data=body,
        skip_auto_headers=("Content-Type",) if body is None else (),
        allow_redirects=False,
        ssl=request.verify,
        proxy=egress.check(url_of(request.proxy)) if request.proxy is not None else None,
        timeout=aiohttp.ClientTimeout(total=None),
        middlewares=(aiohttp.DigestAuthMiddleware(*auth.digest),) if auth.digest is not None else None,
    ) as response:
        return Response(
            response.status, response.reason or "", _plain(response), await egress.read(response), response.url
        )


def _plain(response: aiohttp.ClientResponse) -> dict[str, str | list[str]]:
    headers: dict[str, str | list[str]] = {}
    for name in response.headers:
        values = response.headers.getall(name)
        headers[name.lower()] = values if name.lower() == "set-cookie" else ", ".join(values)
    return headers


def _check_domain(auth: Auth, url: URL) -> None:
    host = url.raw_host or ""
    if auth.domains is not None and not any(
        host == domain or (domain.startswith("*.") and host.endswith(domain[1:])) for domain in auth.domains
    ):
        raise EgressRefused(f"the credential may not be sent to {host} (it allows {', '.join(auth.domains) or 'none'})")


def _failure(where: str, error: Exception) -> RequestFailed:
    """The causes are Node's: https://nodejs.org/api/errors.html#common-system-errors."""
    if isinstance(error, RequestFailed):
        return error
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return RequestFailed(f"{where}: the host's name is not known", cause="ENOTFOUND")
    if isinstance(error, aiohttp.ClientSSLError | ssl.SSLError):
        return RequestFailed(f"{where}: {_said(error)}", cause="ERR_TLS")
    inner = error.os_error if isinstance(error, aiohttp.ClientConnectorError) else error
    if isinstance(inner, PermissionError):
        return EgressRefused(f"{where}: {inner}")
    if isinstance(inner, ConnectionRefusedError):
        return RequestFailed(f"{where}: the connection was refused", cause="ECONNREFUSED")
    if isinstance(inner, aiohttp.ServerDisconnectedError | aiohttp.ClientPayloadError | ConnectionResetError):
        return RequestFailed(f"{where}: the connection was cut ({_said(inner)})", cause="ECONNRESET")
    return RequestFailed(f"{where}: {_said(error)}", cause=getattr(inner, "strerror", None) or type(error).__name__)


def _said(error: Exception) -> str:
    return str(error)[:300] or type(error).__name__
