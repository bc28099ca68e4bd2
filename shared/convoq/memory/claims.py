"""Fencing on servers that are not convoq's own, which cannot see whether an execution is still run by who writes.

Who loads a session there leaves a claim beside it, `execution:token:nonce`. A write is done where its claim stands,
in one atomic step that takes the claim away, and nowhere else. Who loads a session first takes away the claims of those
that run no longer: what they may still send is refused. So no turn gets into a history behind one that has read it.

A claim that is gone though its execution runs (it was used, or the server forgot it) is made again, and then asked for
again at convoq's own server: only what passes both is written.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from secrets import token_hex

from convoq import keys
from convoq.contract.execution import ExecutionInfo
from convoq.contract.memory import History
from convoq.errors import MemoryFailed
from convoq.memory.server import Server

TRIES = 5
"""Of a write whose claim is taken away. Only who no longer runs loses it, so the second passes."""


class Claims:
    """What one attempt at an execution needs to write to one memory elsewhere. `confirm` raises `Fenced` for a
    superseded one, and from then on no other is begun. `own` is convoq's Redis; without it nobody is known to have
    stopped."""

    def __init__(self, execution: ExecutionInfo, confirm: Callable[[], Awaitable[None]], own: Server | None) -> None:
        self.mine = f"{execution.id}:{execution.token}:{token_hex(4)}"
        self.confirm = confirm
        self._own = own

    async def gone(self, claims: Iterable[str]) -> list[str]:
        """Those of them whose attempt no longer runs: it never will again."""
        own = self._own
        if own is None:
            return []

        async def runs(claim: str) -> bool:
            execution, token, _ = claim.rsplit(":", 2)
            found = await own.command("HMGET", keys.execution(execution), "status", "token")
            return found == [b"running", token.encode()]

        others = [claim for claim in claims if claim != self.mine]
        running = await asyncio.gather(*map(runs, others))
        return [claim for claim, still in zip(others, running, strict=True) if not still]


Step = Callable[[str | None], Awaitable[bool]]
"""A write that is done where that claim stands (None: anyhow), and tells whether it was."""


class ClaimedMemory:
    """A memory whose server keeps claims. Without `claims` nobody runs: it is read or cleared for people."""

    def __init__(self, claims: Claims | None) -> None:
        self._claims = claims

    async def load(self) -> History:
        if self._claims is not None:
            found = await self._claim(self._claims.mine)
            if gone := await self._claims.gone(found):
                await self._drop(gone)
        return await self._read()

    async def _claimed(self, step: Step) -> None:
        """Raises `Fenced` where this attempt no longer runs."""
        if self._claims is None:
            await step(None)
            return
        for _ in range(TRIES):
            await self._claims.confirm()
            if await step(self._claims.mine):
                return
            await self._claim(self._claims.mine, begin=True)
        raise MemoryFailed(f"claim {self._claims.mine} on a session was taken away {TRIES} times")

    async def _claim(self, mine: str, *, begin: bool = False) -> Iterable[str]:
        """Leave a claim; what others are there. `begin`: also where the session is not there yet."""
        raise NotImplementedError

    async def _drop(self, gone: Sequence[str]) -> None:
        raise NotImplementedError

    async def _read(self) -> History:
        raise NotImplementedError
