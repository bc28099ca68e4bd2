"""What is wrong after the storm: with what clients saw, with memories, with the order, with the queue."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, cast

from redis.asyncio import Redis

from tests.chaos.client import PATH
from tests.chaos.cluster import Cluster
from tests.chaos.message import Message
from tests.chaos.storm import Storm

CALM_S = 12.0
"""How long after the last message the queue may take to be empty: what a frozen worker took off it comes back late."""
DETECTION_S = 5.0
TURN_S = 30.0
"""How long an answer may take from when its turn has come, without the time that Redis was away. All are meant to take
under 5 s; one may have to wait for a lease twice, and behind all that piled up."""
QUEUE_KEYS = ("convoq:lease", "convoq:waiting", "convoq:rq:wip:chat")


@dataclass
class Verdict:
    messages: int = 0
    complete: int = 0
    explicit_errors: int = 0
    hung: int = 0
    lost_chunks: int = 0
    repeated_chunks: int = 0
    mixed_chunks: int = 0
    half_turns: int = 0
    order_broken: int = 0
    stuck_sessions: int = 0
    slowest_detection: float = 0.0
    detected: int = 0
    notes: list[str] = field(default_factory=list)
    endings: dict[str, int] = field(default_factory=lambda: defaultdict(int))

    @property
    def faults(self) -> dict[str, int]:
        names = "hung lost_chunks repeated_chunks mixed_chunks half_turns order_broken stuck_sessions"
        return {name: getattr(self, name) for name in names.split()}

    @property
    def good(self) -> bool:
        return not any(self.faults.values()) and self.slowest_detection < DETECTION_S and self.complete > 0

    def table(self) -> str:
        row: dict[str, object] = {
            **{name: getattr(self, name) for name in ("messages", "complete", "explicit_errors")},
            **self.faults,
            "slowest_detection": f"{self.slowest_detection:.1f} s",
        }
        heads = [name.replace("_", " ") for name in row]
        cells = [str(value) for value in row.values()]
        widths = [max(len(head), len(cell)) for head, cell in zip(heads, cells, strict=True)]
        lines = ([text.rjust(width) for text, width in zip(texts, widths, strict=True)] for texts in (heads, cells))
        return "\n".join("  ".join(line) for line in lines)


async def judge(storm: Storm) -> Verdict:
    verdict = Verdict()
    async with storm.cluster.valkey.client() as client:
        await _calm(client, verdict)
        sessions: dict[str, list[Message]] = defaultdict(list)
        for message in storm.messages:
            _count(message, verdict)
            if not message.twin:
                sessions[message.session].append(message)
        _twins(storm.messages, verdict)
        for messages in sessions.values():
            _in_time(messages, storm.cluster.away, verdict)
            await _memory(client, messages, verdict)
            await _order(client, messages, verdict)
    _detection(storm.messages, storm.cluster, verdict)
    return verdict


def _count(message: Message, verdict: Verdict) -> None:
    verdict.messages += 1
    verdict.lost_chunks += message.lost
    verdict.repeated_chunks += message.repeated
    verdict.mixed_chunks += message.mixed
    verdict.endings[message.ending] += 1
    verdict.notes += [f"{message.name} {message.execution_id}: {fault}" for fault in message.faults]
    if message.ending == "complete":
        verdict.complete += 1
    elif message.ending:
        verdict.explicit_errors += 1
    unexplained = [fault for fault in message.faults if not fault.startswith(("chunk", "'", "the answer ended well"))]
    if not message.ending or unexplained:
        verdict.hung += 1
        verdict.notes.append(f"{message.name} {message.execution_id}: hangs at chunk {message.seq}")
    if message.ending == "stopped" and not message.stop_asked:
        verdict.order_broken += 1
        verdict.notes.append(f"{message.name} was stopped, and nobody had asked for it")


def _twins(messages: Sequence[Message], verdict: Verdict) -> None:
    """A message that was sent twice has one answer."""
    first = {message.name: message for message in messages if not message.twin}
    for twin in messages:
        if twin.twin and twin.ending and (one := first[twin.name]).ending:
            if (twin.execution_id, twin.words, twin.ending) != (one.execution_id, one.words, one.ending):
                verdict.mixed_chunks += 1
                verdict.notes.append(f"{twin.name}: sent twice, answered by {one.execution_id} and {twin.execution_id}")


def _in_time(messages: Sequence[Message], away: Sequence[tuple[float, float]], verdict: Verdict) -> None:
    turn = 0.0
    for message in messages:
        turn = max(turn, message.sent_at)
        took = message.ended_at - turn
        took -= sum(max(0, min(end, message.ended_at) - max(begin, turn)) for begin, end in away)
        if took > TURN_S:
            verdict.hung += 1
            verdict.notes.append(f"{message.name} {message.execution_id}: took {took:.1f} s")
        turn = max(turn, message.ended_at)


async def _calm(client: Redis, verdict: Verdict) -> None:
    """Nothing waits, nothing runs, no session is locked."""
    deadline = time.monotonic() + CALM_S
    while stuck := await _stuck(client):
        if time.monotonic() > deadline:
            verdict.stuck_sessions = len(stuck)
            verdict.notes += [f"stuck: {one}" for one in stuck]
            return
        await asyncio.sleep(0.2)


async def _stuck(client: Redis) -> list[str]:
    found = [f"session of {key}" async for key in client.scan_iter("convoq:rq:rl:*", count=1000)]
    for name in QUEUE_KEYS:
        found += [f"{one} in {name}" for one in cast("list[str]", await client.zrange(name, 0, -1))]
    for name in ("convoq:rq:queue:chat", "convoq:rq:queue:chat:intermediate"):
        found += [f"{one} in {name}" for one in cast("list[str]", await client.lrange(name, 0, -1))]
    return found


async def _memory(client: Redis, messages: Sequence[Message], verdict: Verdict) -> None:
    """Whole turns in order, each as its client read it; that of every complete answer is there."""
    by_text = {message.text: message for message in messages}
    elements = [
        json.loads(raw) for raw in await client.lrange(f"convoq:mem:wf-{PATH}:{messages[0].session}:Memory", 0, -1)
    ]
    remembered: list[Message] = []
    for user, assistant in zip(elements[::2], elements[1::2], strict=False):
        message = by_text.get(user["content"])
        if message is None or (user["role"], assistant["role"]) != ("user", "assistant"):
            _half(verdict, f"{messages[0].session}: {user} and {assistant} are no turn")
            continue
        remembered.append(message)
        if fault := _turn_fault(message, assistant):
            _half(verdict, f"{message.name} {message.execution_id} ({message.ending}): {fault}: {assistant}")
    if len(elements) % 2:
        _half(verdict, f"{messages[0].session}: {elements[-1]} is half a turn")
    for message in messages:
        if message.ending == "complete" and message not in remembered:
            _half(verdict, f"{message.name} {message.execution_id}: complete, but not remembered")
    for earlier, later in pairwise(remembered):
        if earlier.number >= later.number:
            verdict.order_broken += 1
            verdict.notes.append(f"{later.name} is remembered after {earlier.name}")


def _turn_fault(message: Message, assistant: Mapping[str, Any]) -> str | None:
    said = re.findall(r"\S+ ", assistant["content"])
    seen = re.findall(r"\S+ ", message.answer)
    if not message.ending:
        return None
    if message.ending == "complete":
        return None if said == seen and not assistant.get("cut_off") else "is not what the client read"
    if said[: len(seen)] != seen[: len(said)]:
        return "contradicts what the client read"
    if assistant.get("cut_off"):
        return None if message.stop_asked else "is cut off, and nobody had asked for a stop"
    return None if len(said) == message.tokens else "is half an answer"


def _half(verdict: Verdict, note: str) -> None:
    verdict.half_turns += 1
    verdict.notes.append(note)


async def _order(client: Redis, messages: Sequence[Message], verdict: Verdict) -> None:
    """No turn starts before the one accepted before it has ended."""
    last_end, last = 0, ""
    for message in messages:
        started, ended = await client.hmget(f"convoq:exec:{message.execution_id}", "started", "ended")
        if started and int(started) < last_end:
            verdict.order_broken += 1
            verdict.notes.append(f"{message.name} began {last_end - int(started)} ms before the end of {last}")
        if started and ended:
            last_end, last = max(last_end, int(ended)), message.name


def _detection(messages: Sequence[Message], cluster: Cluster, verdict: Verdict) -> None:
    """From the fault, or the later moment from which it could be told, until the client was told."""
    for message in messages:
        struck = cluster.victims.get(message.execution_id)
        if struck is None or message.slow_reader:
            continue
        told, kind = next(((at, kind) for at, kind in message.noticed if at >= struck), (0.0, ""))
        if not told:
            continue  # hung, and counted as such; or over before the fault
        cuts = [*cluster.cuts, *(end for _, end in cluster.away), *message.connections]
        if kind == "begin" and any(struck <= cut <= told for cut in cuts):
            continue  # it runs again; the word of that (`retry`) is in no log, and was lost with the connection
        since = max([struck, *(at for at in message.connections if at <= told)])
        since = max([since, *(min(end, told) for begin, end in cluster.away if begin <= told and end >= struck)])
        verdict.detected += 1
        if told - since > verdict.slowest_detection:
            verdict.slowest_detection = told - since
        if told - since >= DETECTION_S:
            verdict.notes.append(f"{message.name} {message.execution_id}: told {told - since:.1f} s after its fault")
