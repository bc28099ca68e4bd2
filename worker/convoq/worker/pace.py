"""Whether a worker has time for more: not how many executions it runs counts, but how late its event loop is.

An execution that waits for a model costs nothing; one worker can wait for a thousand.
"""

from __future__ import annotations

import asyncio

LATE_S = 0.03
"""One turn of the loop that takes longer than this: what runs needs all the time that there is."""
MOST_WAITS = 5
"""After so many turns it takes a job all the same: where every worker is late, waiting makes none of them sooner."""


async def until_free() -> None:
    """Return once the event loop is quick again, or after `MOST_WAITS` turns: meanwhile others may take the job."""
    loop = asyncio.get_running_loop()
    for _ in range(MOST_WAITS):
        before = loop.time()
        await asyncio.sleep(0)
        late_s = loop.time() - before
        if late_s < LATE_S:
            return
        await asyncio.sleep(late_s)
