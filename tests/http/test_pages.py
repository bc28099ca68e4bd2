"""Pagination: what is asked for page by page, and when it ends."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from aiohttp import web

from convoq.errors import RequestFailed, ResponseTooLarge
from tests.http.server import Server, egress, serving
from tests.nodes.lab import Ran, arun_node

PAGES = 3


async def page(request: web.Request) -> web.StreamResponse:
    """Three pages of two; the fourth is empty, the fifth is not there."""
    body = json.loads(await request.read() or "{}")
    number = int(request.query.get("p", body.get("p", request.headers.get("x-page", 1))))
    if number > PAGES + 1:
        return web.json_response({}, status=404)
    if request.query.get("list"):
        return web.json_response([{"i": 10 * number}, {"i": 10 * number + 1}] if number <= PAGES else [])
    after = str(request.url.with_query(p=number + 1)) if number < PAGES else None
    return web.json_response({"page": number, "next": after})


def paged(pagination: dict[str, Any], *, query: str = "", max_bytes: int = 1 << 20, **more: Any) -> tuple[Ran, Server]:
    async def run() -> tuple[Ran, Server]:
        async with serving(page) as server, egress(max_bytes=max_bytes) as guarded:
            parameters = {
                "url": f"{server.url}/{query}",
                "options": {"pagination": {"pagination": pagination}},
                **more,
            }
            return await arun_node(
                "n8n-nodes-base.httpRequest", parameters, {"start": 1}, version=4.2, parts=[guarded]
            ), server

    return asyncio.run(run())


def parameter(value: str, kind: str | None = None, name: str = "p") -> dict[str, Any]:
    given = {"name": name, "value": value, **({"type": kind} if kind else {})}
    return {"parameters": {"parameters": [given]}}


def test_a_parameter_in_each_request() -> None:
    ran, server = paged(parameter("={{ $pageCount + $json.start }}"), query="?list=1")
    assert [one["i"] for one in ran.json] == [10, 11, 20, 21, 30, 31] and ran.pairs == [[0]] * 6
    assert [one.query for one in server.asked] == ["list=1&p=1", "list=1&p=2", "list=1&p=3", "list=1&p=4"]


def test_the_next_address_from_the_response() -> None:
    ran, server = paged({"paginationMode": "responseContainsNextURL", "nextURL": "={{ $response.body.next }}"})
    assert [one["page"] for one in ran.json] == [1, 2, 3] and len(server.asked) == 3


def test_a_limit_of_pages() -> None:
    limited = {**parameter("={{ $pageCount + 1 }}"), "limitPagesFetched": True, "maxRequests": "={{ 1 + 1 }}"}
    assert [one["page"] for one in paged(limited)[0].json] == [1, 2]


@pytest.mark.parametrize("kind", ["body", "headers"])
def test_a_parameter_of_the_body_or_a_header(kind: str) -> None:
    """On the first page there is no response to take it from: it is left out."""
    name = "p" if kind == "body" else "X-Page"
    done = {"paginationCompleteWhen": "other", "completeExpression": "={{ $response.body.page >= 3 }}"}
    pagination = {**parameter("={{ $response.body.page + 1 }}", kind, name), **done}
    ran, server = paged(pagination, method="POST", sendBody=True, specifyBody="json", jsonBody='{"a":1}')
    assert [one["page"] for one in ran.json] == [1, 2, 3]
    if kind == "body":
        assert [json.loads(one.body) for one in server.asked] == [{"a": 1}, {"a": 1, "p": 2}, {"a": 1, "p": 3}]


def test_a_status_that_is_the_end() -> None:
    done = {"paginationCompleteWhen": "receiveSpecificStatusCodes", "statusCodesWhenComplete": "404, 410"}
    ran, _ = paged({**parameter("={{ $pageCount + 1 }}"), **done})
    assert [one["page"] for one in ran.json] == [1, 2, 3, 4]
    ran, _ = paged({**parameter("={{ $pageCount + 1 }}"), **done, "statusCodesWhenComplete": "410"})
    assert isinstance(ran.error, RequestFailed) and ran.error.details["http_status"] == 404


def test_all_pages_together_are_bounded() -> None:
    endless = {**parameter("1"), "paginationCompleteWhen": "other", "completeExpression": "={{ false }}"}
    ran, server = paged(endless, max_bytes=1024)
    assert isinstance(ran.error, ResponseTooLarge) and len(server.asked) > 10
