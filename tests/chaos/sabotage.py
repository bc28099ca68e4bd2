"""`python -m tests.chaos.sabotage WHAT convoq-arguments…`: convoq with one of its safeguards taken out.

For the proof that the suite can fail. Nothing of this is in the product: its scripts and classes are changed here,
before it starts, and an edit that no longer finds its place is an error.
"""

from __future__ import annotations

import hashlib
import sys
from dataclasses import replace
from functools import cache

import convoq.redis
from convoq.redis import Script, load_script


def fencing() -> None:
    """An attempt that was taken over goes on as if nothing had happened."""
    edits = {
        "publish": ("return 0", "redis.call('PUBLISH', execution, payload)\n return 1"),
        "finish": ("return 0\n    end\n    seq", "redis.call('PUBLISH', execution, payload)\n return 1\n end\n seq"),
        "append_turn": ("return token ~= '' and not held(execution, 'running', token)", "return false"),
        "renew": ("if stop or not held then", "if stop then"),
    }

    @cache
    def edited(name: str) -> Script:
        script = load_script(name)
        if name not in edits:
            return script
        old, new = (part.encode() for part in edits[name])
        if script.source.count(old) != 1:
            raise SystemExit(f"{name}.lua: cannot take its fence out, it has changed")
        source = script.source.replace(old, new)
        return replace(script, source=source, sha=hashlib.sha1(source, usedforsecurity=False).hexdigest())

    convoq.redis.load_script = edited


def gaps() -> None:
    """A reader takes what the channel brings, as one would that has no log to fill gaps from."""
    import asyncio

    from convoq.api.relay import Reader
    from convoq.delivery.entries import Entry

    async def next_live(self: Reader, timeout_s: float) -> Entry | None:
        while not self._left:
            if self._live:
                return self._live.popleft()
            self._wake.clear()
            try:
                async with asyncio.timeout(timeout_s):
                    await self._wake.wait()
            except TimeoutError:
                return None
        return None

    Reader.fall_behind = lambda self: None  # type: ignore[method-assign]
    Reader.next = next_live  # type: ignore[method-assign]


if __name__ == "__main__":
    {"fencing": fencing, "gaps": gaps}[sys.argv.pop(1)]()
    from convoq.cli.main import main

    main()
