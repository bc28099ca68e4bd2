"""The storm: clients that talk for a while, and faults that strike meanwhile, both drawn from one seed."""

from __future__ import annotations

import asyncio
import random
import signal
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from tests.chaos.client import Client
from tests.chaos.cluster import LEASE_S, Cluster
from tests.chaos.message import Message
from tests.stack import Process

ALL_FAULTS = ("kill worker", "kill api", "freeze worker", "restart redis", "cut", "stall", "delay")
OPEN_AT_ONCE = 3
"""Messages of one session that are under way at the same time."""


@dataclass(frozen=True)
class Plan:
    """`seconds` is the storm's length; start, calm and checks come on top."""

    seed: int = 1
    seconds: float = 120.0
    streams: int = 200
    faults: tuple[str, ...] = ALL_FAULTS
    every_s: float = 3.0
    sabotage: str | None = None
    patience_s: float = 30.0


@dataclass
class Storm:
    plan: Plan
    cluster: Cluster
    messages: list[Message] = field(default_factory=list)
    struck: list[str] = field(default_factory=list)
    over: bool = False
    _down: set[int] = field(default_factory=set)
    _chores: set[asyncio.Task[None]] = field(default_factory=set)

    async def rage(self) -> None:
        """Until all is said, every process is back, and each message has ended or had its time."""
        plan = self.plan
        sessions = [asyncio.create_task(self._converse(f"s{index}")) for index in range(plan.streams)]
        strikes = asyncio.create_task(self._strike())
        await asyncio.sleep(plan.seconds)
        self.over = True
        await strikes
        if self._chores:
            await asyncio.wait(self._chores)
        done, hanging = await asyncio.wait(sessions, timeout=plan.patience_s)
        for session in hanging:
            session.cancel()
        await asyncio.gather(*hanging, return_exceptions=True)
        for one in (*done, *self._chores):
            one.result()

    # --- the clients ---------------------------------------------------------------------------------------------

    async def _converse(self, session: str) -> None:
        """Several messages at once, in order: one is sent when the one before it is accepted."""
        dice = random.Random(f"{self.plan.seed}/{session}")
        reading: set[asyncio.Task[None]] = set()
        await asyncio.sleep(dice.uniform(0, 2))
        number = 0
        try:
            while not self.over:
                message = self._message(session, number, dice)
                number += 1
                reading |= set(self._send(message, dice))
                await message.accepted.wait()
                reading = {task for task in reading if not task.done() or task.result()}
                while len(reading) >= dice.randint(1, OPEN_AT_ONCE):
                    _, reading = await asyncio.wait(reading, return_when=asyncio.FIRST_COMPLETED)
                await asyncio.sleep(dice.choice((0, 0.3, 1.5, 3)))
            await asyncio.gather(*reading)
        finally:
            for task in reading:
                task.cancel()

    def _message(self, session: str, number: int, dice: random.Random) -> Message:
        kind = dice.random()
        tokens, pace_ms = (dice.randint(10, 40), 150) if kind < 0.7 else (dice.randint(5, 60), 0)
        if slow := kind > 0.99:
            tokens = 1500
        return Message(
            session, number, tokens, dice.choice((0, 100, 800)), pace_ms, slow_reader=slow, sse=dice.random() < 0.2
        )

    def _send(self, message: Message, dice: random.Random) -> list[asyncio.Task[None]]:
        """The message's client, and perhaps one that sends it a second time, or asks for its stop."""
        copies = [message]
        if dice.random() < 0.05:
            copies.append(
                Message(
                    *(message.session, message.number, message.tokens, message.first_ms, message.pace_ms),
                    sse=message.sse,
                    twin=True,
                )
            )
        self.messages += copies
        clients = [Client(self.cluster.ports, copy, random.Random(f"{dice.random()}")) for copy in copies]
        for copy in copies:
            copy.sent_at = time.monotonic()
        tasks = [asyncio.create_task(client.run()) for client in clients]
        if dice.random() < 0.06:
            for copy in copies:
                copy.stop_asked = True
            tasks.append(asyncio.create_task(clients[0].stop()))
        return tasks

    # --- the faults ----------------------------------------------------------------------------------------------

    async def _strike(self) -> None:
        dice = random.Random(self.plan.seed)
        strikes: dict[str, Callable[[random.Random], Awaitable[None]]] = {
            "kill worker": self._kill_worker,
            "kill api": self._kill_api,
            "freeze worker": self._freeze_worker,
            "restart redis": self._restart_redis,
            "cut": self._cut,
            "stall": self._stall,
            "delay": self._delay,
        }
        bag: list[str] = []
        await asyncio.sleep(2)
        while not self.over:
            if not bag:  # each fault comes once before any comes again
                bag = list(self.plan.faults)
                dice.shuffle(bag)
            name = bag.pop()
            self.struck.append(name)
            await strikes[name](dice)
            await asyncio.sleep(dice.uniform(0.5, 1.5) * self.plan.every_s)

    def _later(self, chore: Awaitable[None]) -> None:
        async def run() -> None:
            await chore

        self._chores.add(asyncio.create_task(run()))

    def _a_worker(self, dice: random.Random) -> int | None:
        """One of those that are well; the last of them is spared."""
        well = [index for index in range(len(self.cluster.workers)) if index not in self._down]
        return dice.choice(well) if len(well) > 1 else None

    async def _kill_worker(self, dice: random.Random) -> None:
        index = self._a_worker(dice)
        if index is None:
            return
        cluster, worker = self.cluster, self.cluster.workers[index]
        await cluster.note_victims(worker)
        worker.popen.kill()
        worker.popen.wait()
        cluster.workers[index] = cluster.stack.start_worker()

    async def _freeze_worker(self, dice: random.Random) -> None:
        index = self._a_worker(dice)
        if index is None:
            return
        worker = self.cluster.workers[index]
        await self.cluster.note_victims(worker)
        worker.popen.send_signal(signal.SIGSTOP)
        self._down.add(index)
        self._later(self._thaw(worker, index, LEASE_S + dice.uniform(1, 4)))

    async def _thaw(self, worker: Process, index: int, after_s: float) -> None:
        await asyncio.sleep(after_s)
        worker.popen.send_signal(signal.SIGCONT)
        self._down.discard(index)

    async def _kill_api(self, dice: random.Random) -> None:
        index = dice.randrange(len(self.cluster.apis))
        api = self.cluster.apis[index]
        api.popen.kill()
        api.popen.wait()
        self.cluster.apis[index] = self.cluster.start_api(index)

    async def _restart_redis(self, dice: random.Random) -> None:
        since = time.monotonic()
        self.cluster.valkey.kill()
        await asyncio.sleep(dice.uniform(0, 2))
        await self.cluster.valkey.start()
        self.cluster.away.append((since, time.monotonic()))

    async def _cut(self, dice: random.Random) -> None:
        self.cluster.proxy.cut()
        self.cluster.cuts.append(time.monotonic())

    async def _stall(self, dice: random.Random) -> None:
        since = time.monotonic()
        self.cluster.proxy.stall()
        await asyncio.sleep(dice.choice((0.5, 2, LEASE_S + 4)))
        self.cluster.proxy.flow()
        self.cluster.away.append((since, time.monotonic()))

    async def _delay(self, dice: random.Random) -> None:
        self.cluster.proxy.delay_s = 0.05
        await asyncio.sleep(2)
        self.cluster.proxy.delay_s = 0
