"""Waiting in place, where nobody parks executions: the run holds its worker meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Protocol

from convoq.contract.waiting import Resumed
from convoq.engine.outcome import Outcome
from convoq.engine.state import RunState
from convoq.errors import NodeFailed


class Waiting(Protocol):
    """A run that goes on when what its node waits for has come."""

    state: RunState

    async def resume(self, resumed: Resumed) -> Outcome: ...


async def wait_here(
    run: Waiting, outcome: Outcome, *, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
) -> Outcome:
    """The outcome once the times that nodes wait for have come. What waits for anything else fails."""
    while outcome.wait is not None:
        wait = outcome.wait
        if wait.for_ != "time" or wait.until is None:
            waits_for = "a time" if wait.for_ == "time" else f"a {wait.for_}"
            error = NodeFailed(f"{outcome.last_node}: waits for {waits_for}, which cannot come here")
            return Outcome("error", error, outcome.last_node, outcome.node_id, outcome.run_index)
        await sleep(max(0.0, wait.until - run.state.services.clock()))
        outcome = await run.resume(Resumed("time"))
    return outcome
