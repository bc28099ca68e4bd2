"""HTTP Request: calls an address for each item; the answer is what comes out."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Final

from pydantic import ValidationError

from convoq.contract.context import RunContext
from convoq.contract.definition import Node
from convoq.contract.items import Item
from convoq.contract.node import MainNode
from convoq.egress.session import Egress
from convoq.errors import NodeFailed, RequestFailed
from convoq.nodes.http.answer import items_of, raise_for_status
from convoq.nodes.http.build import request_of
from convoq.nodes.http.old_parameters import AnyHttpRequestParameters, AnyOptions, batching, modern
from convoq.nodes.http.pages import pages_of
from convoq.nodes.http.request import Request, Response
from convoq.nodes.http.send import send

AT_ONCE: Final = 20
"""Requests of one node that are under way at the same time, at the most."""
_HARMLESS: Final = ("GET", "HEAD", "OPTIONS")


class HttpRequestNode(MainNode[AnyHttpRequestParameters]):
    """The requests of several items go out side by side; what comes out keeps the order of the items."""

    type = "n8n-nodes-base.httpRequest"
    versions = (1, 4.4)
    parameters_class = AnyHttpRequestParameters

    def needed_credentials(self, node: Node) -> Sequence[str]:
        try:
            parameters = AnyHttpRequestParameters.model_validate(
                node.parameters, context={"version": node.type_version}
            )
        except ValidationError:
            return ()
        kind = parameters.credential_type
        return (kind,) if kind and not kind.startswith("=") else ()

    async def run(self, ctx: RunContext[AnyHttpRequestParameters]) -> list[list[Item]]:
        free = asyncio.Semaphore(AT_ONCE)

        async def one(index: int) -> list[Item]:
            async with free:
                return await request_items(ctx, index)

        options = await ctx.evaluate({**ctx.node.parameters.get("options", {}), "pagination": {}})
        batch = batching(AnyOptions.model_validate(options))
        tasks: list[asyncio.Task[list[Item]]] = []
        try:
            for index in range(len(ctx.items)):
                if batch is not None and index and batch.batch_size > 0 and index % batch.batch_size == 0:
                    await asyncio.sleep(batch.batch_interval / 1000)
                tasks.append(asyncio.create_task(one(index)))
            found = await asyncio.gather(*tasks, return_exceptions=True)
        finally:
            for task in tasks:
                task.cancel()
        return _outputs(ctx, found)


async def request_items(ctx: RunContext[Any], index: int) -> list[Item]:
    """The items of one item's request, or requests."""
    version = ctx.node.type_version
    parameters = modern(await ctx.parameters(index), version)
    shape = parameters.options.response.response
    if parameters.method not in _HARMLESS:
        await ctx.before_effect()
    pages = parameters.options.pagination.pagination
    if pages is None or pages.pagination_mode == "off":
        request = await request_of(ctx, index, parameters, version)
        response = await exchange(ctx, request, never_error=shape.never_error)
        return await items_of(ctx, index, response, shape)
    return [
        item
        async for response in pages_of(ctx, index, parameters, version, pages)
        for item in await items_of(ctx, index, response, shape)
    ]


async def exchange(ctx: RunContext[Any], request: Request, *, never_error: bool = False) -> Response:
    """Send a request in the name of a node. Raises `RequestFailed`, for a status that is an error, too."""
    response = await send(ctx.services.part(Egress), request)
    if not never_error:
        raise_for_status(request, response)
    return response


def _outputs(ctx: RunContext[Any], found: Sequence[list[Item] | BaseException]) -> list[list[Item]]:
    """As `per_item` has it, but for the error, which says more: `{"message", "name", "code", "status"}`."""
    on_error = ctx.node.on_error
    good: list[Item] = []
    bad: list[Item] = []
    for index, (item, made) in enumerate(zip(ctx.items, found, strict=True)):
        if not isinstance(made, BaseException):
            good += made
        elif not isinstance(made, NodeFailed) or on_error == "stopWorkflow" or not ctx.last_try:
            raise made
        elif on_error == "continueRegularOutput":
            good.append(Item({"error": error_of(made)}, paired_item=index))
        else:
            bad.append(Item({**item.json, "error": error_of(made)}, item.binary, index))
    return [good, bad] if on_error == "continueErrorOutput" else [good]


def error_of(failure: NodeFailed) -> dict[str, Any] | str:
    """A failure as workflows know it from n8n, whose names these are."""
    if not isinstance(failure, RequestFailed) or "cause" not in failure.details:
        return failure.message
    answered = {"status": failure.details["http_status"]} if "http_status" in failure.details else {}
    axios = answered or failure.details["cause"] == "ECONNABORTED"
    return {
        "message": failure.message,
        "name": "AxiosError" if axios else "Error",
        "code": failure.details["cause"],
        **answered,
    }
