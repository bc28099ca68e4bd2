"""Processes of one kind, started when they are needed."""

from __future__ import annotations

import asyncio
from collections import deque

from convoq.errors import ExpressionFailed
from convoq.expressions.process import Ended, Kind, Limits, Process

START_S = 30.0
PATIENCE_S = 0.1
"""How long a request waits for a process to be free before one more is started."""


class Pool:
    """At most `size` processes."""

    def __init__(self, kind: Kind, limits: Limits, size: int) -> None:
        self.limits = limits
        self._kind = kind
        self._size = size
        self._idle: list[Process] = []
        self._all: set[Process] = set()
        self._starting = False
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._returning: set[asyncio.Task[None]] = set()

    async def run(self, body: bytes) -> bytes:
        """The answer to a request, both JSON. Raises `ExpressionFailed` where it goes over a limit.

        A process that something else ended is made up for by another one: a request changes nothing outside.
        """
        try:
            return await self._run(body)
        except Ended as error:
            if error.over_limit:
                raise ExpressionFailed(str(error)) from None
        try:
            return await self._run(body)
        except Ended as error:
            raise ExpressionFailed(str(error)) from None

    async def _run(self, body: bytes) -> bytes:
        process = await self._take()
        try:
            answer = await process.request(body)
        except BaseException:
            self._drop(process)
            raise
        if process.says_ready:
            await self._return(process)
        else:
            task = asyncio.create_task(self._return(process))
            self._returning.add(task)
            task.add_done_callback(self._returning.discard)
        return answer

    @property
    def pids(self) -> set[int]:
        """Of the processes there are."""
        return {process.pid for process in self._all}

    async def close(self) -> None:
        for task in self._returning:
            task.cancel()
        await asyncio.gather(*self._returning, return_exceptions=True)
        processes = list(self._all)
        self._all.clear()
        self._idle.clear()
        await asyncio.gather(*(asyncio.to_thread(process.end) for process in processes))

    async def _take(self) -> Process:
        while True:
            while self._idle:
                process = self._idle.pop()
                try:
                    await process.ready()
                except BaseException as error:
                    self._drop(process)
                    if not isinstance(error, Ended):
                        raise
                else:
                    return process
            if not self._may_start:
                await self._freed(None)
            elif not self._all or not await self._freed(PATIENCE_S):
                if self._may_start and not self._idle:
                    return await self._start()

    @property
    def _may_start(self) -> bool:
        """One at a time, so that a burst does not start more than it takes."""
        return not self._starting and len(self._all) < self._size

    async def _freed(self, timeout_s: float | None) -> bool:
        """Wait for a process to be free, or for one to be gone; False when that took too long."""
        waiter = asyncio.get_running_loop().create_future()
        self._waiting.append(waiter)
        try:
            async with asyncio.timeout(timeout_s):
                await waiter
        except TimeoutError:
            return bool(self._idle)
        except asyncio.CancelledError:
            if waiter.done():
                self._wake()
            raise
        finally:
            if waiter in self._waiting:
                self._waiting.remove(waiter)
        return True

    async def _start(self) -> Process:
        process = None
        self._starting = True
        try:
            process = await asyncio.to_thread(Process, self._kind, self.limits)
            self._all.add(process)
            async with asyncio.timeout(START_S):
                await process.ready()
        except BaseException as error:
            if process is not None:
                self._drop(process)
            if isinstance(error, Ended | TimeoutError):
                raise ExpressionFailed("the JavaScript sandbox could not be started") from None
            raise
        finally:
            self._starting = False
            self._wake(len(self._waiting))
        return process

    async def _return(self, process: Process) -> None:
        try:
            await process.ready()
        except Ended:
            self._drop(process)
            return
        except asyncio.CancelledError:  # The loop ends; another one may go on.
            self._idle.append(process)
            raise
        self._idle.append(process)
        self._wake()

    def _drop(self, process: Process) -> None:
        self._all.discard(process)
        process.end()
        self._wake()

    def _wake(self, count: int = 1) -> None:
        while self._waiting and count:
            waiter = self._waiting.popleft()
            if not waiter.done():
                waiter.set_result(None)
                count -= 1
