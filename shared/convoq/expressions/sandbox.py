"""Where JavaScript runs: processes of their own, each with one V8, that end when a limit is met.

V8 in the worker's process would not do: an array of a billion elements, or a promise that begets promises, ends the
whole process, whatever limit was set on it (tried with mini-racer 0.14).
"""

from __future__ import annotations

from typing import Self

from convoq.expressions.pool import Pool
from convoq.expressions.process import Limits
from convoq.settings import Settings


class Sandbox:
    """A worker's one: a pool for expressions, whose processes serve execution after execution, and one for Code nodes,
    in which each run has a V8 of its own."""

    def __init__(self, expressions: Limits | None = None, code: Limits | None = None, size: int = 4) -> None:
        self.expressions = Pool("expressions", expressions or Limits(), size)
        self.code = Pool("code", code or Limits(timeout_s=10.0), size)

    @classmethod
    def of(cls, settings: Settings) -> Self:
        def limits(timeout_s: float) -> Limits:
            return Limits(timeout_s, settings.sandbox_memory_mb << 20, timezone=settings.timezone)

        return cls(
            limits(settings.expression_timeout_s), limits(settings.code_timeout_s), size=settings.sandbox_processes
        )

    async def close(self) -> None:
        await self.expressions.close()
        await self.code.close()
