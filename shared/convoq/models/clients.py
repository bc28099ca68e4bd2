"""The providers' clients of a process: made on first use, shared by all executions, closed with it."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any, TypeVar, cast

if TYPE_CHECKING:
    import httpx2

T = TypeVar("T")
MOST = 200
"""Clients that are kept: one a key and address. More are made anew each time."""


class ProviderClients:
    """`http` is the connection pool of the SDKs that take one."""

    def __init__(self) -> None:
        self._http: httpx2.AsyncClient | None = None
        self._made: dict[Hashable, Any] = {}

    @property
    def http(self) -> httpx2.AsyncClient:
        if self._http is None:
            from pydantic_ai._http import create_async_httpx2_client

            self._http = create_async_httpx2_client()
        return self._http

    def get(self, key: Hashable, make: Callable[[], T]) -> T:
        """The client of that key, made by `make` if there is none."""
        if (found := self._made.get(key)) is None:
            found = make()
            if len(self._made) < MOST:
                self._made[key] = found
        return cast(T, found)

    async def close(self) -> None:
        if self._http is not None:
            await self._http.aclose()
