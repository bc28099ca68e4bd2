"""The storm's clients, on raw sockets: they post, read, hang up, come back with the last `seq`, and ask for a stop."""

from __future__ import annotations

import asyncio
import json
import random
import socket
from collections.abc import AsyncIterator, Awaitable, Sequence
from dataclasses import dataclass

from tests.chaos.message import Message

SILENCE_S = 8.0
"""Keepalives come every 2 s here: a connection that is silent for this long is dead."""
CONNECT_S = 2.0
AGAIN_S = 0.15
PATH = "chaos"
CUT = (OSError, EOFError, TimeoutError, asyncio.LimitOverrunError)


@dataclass
class Answer:
    """A response: the head is read, the body is read by the caller."""

    status: int
    headers: dict[str, str]
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def body(self) -> AsyncIterator[bytes]:
        """The body's pieces. Ends only where the server has ended it; raises `EOFError` where it was cut."""
        if self.status == 204:
            return
        if "content-length" in self.headers:
            yield await self._within(self.reader.readexactly(int(self.headers["content-length"])))
            return
        while size := int(await self._line() or b"x", 16):
            yield (await self._within(self.reader.readexactly(size + 2)))[:-2]
        await self._line()

    async def _line(self) -> bytes:
        line = await self._within(self.reader.readline())
        if not line.endswith(b"\n"):
            raise EOFError("cut")
        return line

    async def _within(self, reading: Awaitable[bytes]) -> bytes:
        async with asyncio.timeout(SILENCE_S):
            return await reading


async def request(port: int, method: str, path: str, body: bytes = b"", small: bool = False, **headers: str) -> Answer:
    """Raises `CUT` errors."""
    raw = socket.socket()
    raw.setblocking(False)
    if small:
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    try:
        async with asyncio.timeout(CONNECT_S):
            await asyncio.get_running_loop().sock_connect(raw, ("127.0.0.1", port))
            reader, writer = await asyncio.open_connection(sock=raw, limit=16 << 10 if small else 64 << 10)
    except BaseException:
        raw.close()
        raise
    try:
        lines = [f"{method} {path} HTTP/1.1", "host: chaos", f"content-length: {len(body)}"]
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        writer.write("\r\n".join([*lines, "", ""]).encode() + body)
        async with asyncio.timeout(SILENCE_S):
            head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        pairs = (line.partition(":") for line in head[1:] if line)
        return Answer(int(head[0].split()[1]), {k.lower(): v.strip() for k, _, v in pairs}, reader, writer)
    except BaseException:
        writer.transport.abort()
        raise


@dataclass
class Client:
    """One message's client. It gives up only when it is cancelled."""

    ports: Sequence[int]
    message: Message
    dice: random.Random

    async def run(self) -> None:
        message = self.message
        leaves_at = self.dice.randrange(message.tokens) if self.dice.random() < 0.15 else -1
        while not message.ending:
            try:
                if await self._attempt(leaves_at):
                    return
            except CUT:
                pass
            except ValueError as error:
                message.faults.append(f"not HTTP, or not JSON: {error!r}")
            if message.left:
                leaves_at = -1
            await asyncio.sleep(AGAIN_S)

    async def _attempt(self, leaves_at: int) -> bool:
        """Whether the end is reached."""
        answer = await (self._post() if not self.message.execution_id else self._resume())
        try:
            return await self._handle(answer, leaves_at)
        finally:
            answer.writer.transport.abort()

    async def _handle(self, answer: Answer, leaves_at: int) -> bool:
        message = self.message
        if answer.status == 204:
            return message.closed()
        if answer.status != 200:
            text = b"".join([piece async for piece in answer.body()])
            if answer.status == 410:
                message.end(json.loads(text)["code"])
            elif answer.status != 503:
                message.faults.append(f"{answer.status}: {text.decode()}")
            return bool(message.ending)
        if not message.execution_id:
            message.execution_id, message.token = answer.headers["x-execution-id"], answer.headers["x-stream-token"]
            message.accepted.set()
        message.connected()
        async for line in self._lines(answer):
            message.read(json.loads(line))
            if message.seq >= leaves_at >= 0:
                message.left += 1
                await asyncio.sleep(self.dice.uniform(0, 2))
                return False
        return message.closed()

    async def _lines(self, answer: Answer) -> AsyncIterator[bytes]:
        rest = b""
        async for piece in answer.body():
            *lines, rest = (rest + piece).split(b"\n")
            for line in lines:
                if not self.message.sse:
                    yield line
                elif line.startswith(b"data: "):
                    yield line[6:]
            if self.message.slow_reader:
                await asyncio.sleep(0.05)

    async def _post(self) -> Answer:
        message = self.message
        body = json.dumps({"sessionId": message.session, "chatInput": message.text}).encode()
        accept = "text/event-stream" if message.sse else "application/x-ndjson"
        return await request(
            self.dice.choice(self.ports),
            *("POST", f"/webhook/{PATH}", body),
            small=message.slow_reader,
            content_type="application/json",
            accept=accept,
            idempotency_key=message.name,
        )

    async def _resume(self) -> Answer:
        message, port = self.message, self.dice.choice(self.ports)
        path = f"/executions/{message.execution_id}/stream?token={message.token}"
        if message.sse and message.seq >= 0:
            return await request(port, "GET", path, last_event_id=str(message.seq))
        accept = "text/event-stream" if message.sse else "application/x-ndjson"
        return await request(port, "GET", f"{path}&after={message.seq}", small=message.slow_reader, accept=accept)

    async def stop(self) -> None:
        """Ask for a stop until it is confirmed."""
        message = self.message
        await message.accepted.wait()
        await asyncio.sleep(self.dice.uniform(0, 1.5))
        message.stop_asked = True
        while not message.ending:
            try:
                path = f"/executions/{message.execution_id}/stop?token={message.token}"
                answer = await request(self.dice.choice(self.ports), "POST", path)
                text = b"".join([piece async for piece in answer.body()])
                answer.writer.transport.abort()
                if answer.status == 200:
                    return
                if answer.status != 503:
                    message.faults.append(f"stop: {answer.status}: {text.decode()}")
                    return
            except CUT:
                pass
            await asyncio.sleep(AGAIN_S)
