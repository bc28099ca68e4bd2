"""How the tools of one web service ask it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import aiohttp

from convoq.contract.context import Context
from convoq.errors import ToolFailed

TIMEOUT = aiohttp.ClientTimeout(total=30, sock_connect=10)
MAX_BYTES = 4 << 20


async def get_json(ctx: Context[Any], service: str, url: str, query: Mapping[str, str]) -> Any:
    """The JSON at an address that convoq knows. Raises `ToolFailed`, never with the query, which may hold a key."""
    try:
        async with ctx.services.http().get(url, params=query, timeout=TIMEOUT, allow_redirects=False) as response:
            body = await response.content.read(MAX_BYTES + 1)
            if response.status != 200:
                raise ToolFailed(f"{service} answered {response.status}: {body[:300].decode(errors='replace')}")
            if len(body) > MAX_BYTES:
                raise ToolFailed(f"{service} answered with more than {MAX_BYTES} bytes")
            return await response.json(content_type=None)
    except (aiohttp.ClientError, TimeoutError, ValueError) as error:
        raise ToolFailed(f"{service} cannot be asked: {type(error).__name__}") from error
