"""Pagination: the same request again and again, each time for the next page."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any, Final

from convoq.contract.context import Context
from convoq.egress.session import Egress
from convoq.errors import BadParameter, ResponseTooLarge
from convoq.expressions import js
from convoq.nodes.http.answer import raise_for_status, read
from convoq.nodes.http.build import More, request_of
from convoq.nodes.http.parameters import HttpRequestParameters, Pagination
from convoq.nodes.http.request import Request, Response
from convoq.nodes.http.send import send

MAX_PAGES: Final = 1000
MAX_TOTAL: Final = 4
"""All pages together may be so many times as large as one answer."""


async def pages_of(
    ctx: Context[Any], item_index: int, parameters: HttpRequestParameters, version: float, pages: Pagination
) -> AsyncIterator[Response]:
    """The answers, page by page. Raises as `send` does, and for statuses that are errors."""
    egress = ctx.services.part(Egress)
    page, size = _Pages(ctx, item_index, pages), 0
    limit = await page.number("maxRequests", pages.max_requests) if pages.limit_pages_fetched else MAX_PAGES
    interval_s = await page.number("requestInterval", pages.request_interval) / 1000
    while True:
        request = await request_of(ctx, item_index, parameters, version, await page.more())
        response = await send(egress, request)
        page.seen(request, response)
        complete = await page.is_complete()
        if not (parameters.options.response.response.never_error or (complete and page.by_status)):
            raise_for_status(request, response)
        size += len(response.body)
        if size > egress.max_bytes * MAX_TOTAL:
            raise ResponseTooLarge(f"the pages of {response.url.host} have more than {size} bytes together")
        if not (complete and page.by_status):
            yield response
        if complete or page.count >= min(limit, MAX_PAGES):
            return
        await asyncio.sleep(interval_s)


class _Pages:
    """Where a pagination stands: `count` pages were fetched, the last with `request` and `response`."""

    def __init__(self, ctx: Context[Any], item_index: int, pages: Pagination) -> None:
        self._ctx = ctx
        self._item_index = item_index
        self._pages = pages
        self._body: Any = None
        self._response: dict[str, Any] = {}
        self._request: dict[str, Any] = {}
        self.count = 0
        self.by_status = pages.pagination_complete_when == "receiveSpecificStatusCodes"

    def seen(self, request: Request, response: Response) -> None:
        self.count += 1
        self._body = read(response)
        self._response = {"body": self._body, "headers": dict(response.headers), "statusCode": response.status}
        self._request = {"method": request.method, "url": request.url, "headers": dict(request.headers)}

    async def evaluate(self, template: Any) -> Any:
        variables = {"$response": self._response, "$request": self._request, "$pageCount": self.count}
        return await self._ctx.evaluate(template, self._item_index, variables)

    async def number(self, name: str, template: Any) -> float:
        found = js.number(await self.evaluate(template))
        if not found >= 0:
            raise BadParameter(f"parameter 'options.pagination.{name}' should be a number", parameter=name)
        return found

    async def more(self) -> More:
        """What the next request has besides. Of the first page nothing is known, so what refers to it is left out."""
        if self._pages.pagination_mode == "responseContainsNextURL":
            return More(url=js.text(await self.evaluate(self._pages.next_url)) if self.count else "")
        found: dict[str, dict[str, Any]] = {"qs": {}, "headers": {}, "body": {}}
        for entry in self._pages.parameters.parameters:
            if entry.name and (value := await self.evaluate(entry.value)) is not None:
                found[entry.type][entry.name] = value
        return More(query=found["qs"], headers=found["headers"], body=found["body"])

    async def is_complete(self) -> bool:
        if self._pages.pagination_mode == "responseContainsNextURL" and not await self.evaluate(self._pages.next_url):
            return True
        match self._pages.pagination_complete_when:
            case "other":
                return bool(await self.evaluate(self._pages.complete_expression))
            case "receiveSpecificStatusCodes":
                codes = js.text(await self.evaluate(self._pages.status_codes_when_complete))
                return str(self._response["statusCode"]) in (code.strip() for code in codes.split(","))
        return not self._body
