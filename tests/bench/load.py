"""The bench's users: each sends one message after another over its own connection and checks every answer's text.

Run as a process of its own: `python -m tests.bench.load '{"url": …}'` prints one JSON object.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
import time
from dataclasses import asdict, dataclass, field
from urllib.parse import urlsplit

CONTENT = re.compile(rb'"content":"((?:[^"\\]|\\.)+)"')
STAMP = re.compile(r"w(\d+)@(\d+) ")
ANSWER_S = 120.0


@dataclass(frozen=True)
class Plan:
    """`direct` sends to the model server itself: what any relay is held against."""

    url: str
    users: int
    messages: int
    tokens: int
    model: str
    direct: bool = False
    run: str = ""


@dataclass
class Result:
    """Times in milliseconds, one per good answer; `late` has one per token: from made by the model to read here."""

    seconds: float = 0.0
    first: list[float] = field(default_factory=list)
    late: list[float] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)


class User:
    def __init__(self, number: int, plan: Plan, result: Result) -> None:
        self._number = number
        self._plan = plan
        self._result = result
        self._address = urlsplit(plan.url)
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def talk(self, messages: int) -> None:
        for _ in range(messages):
            try:
                async with asyncio.timeout(ANSWER_S):
                    await self._message()
            except (OSError, EOFError, ValueError, TimeoutError) as error:
                self._result.failed.append(f"{type(error).__name__}: {error}")
                self.close()
        self.close()

    def close(self) -> None:
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None

    async def _message(self) -> None:
        plan, address = self._plan, self._address
        if self._streams is None:
            self._streams = await asyncio.open_connection(address.hostname, address.port)
        reader, writer = self._streams
        if plan.direct:
            body = json.dumps({"model": plan.model, "stream": True, "messages": [{"role": "user", "content": "hello"}]})
        else:
            body = json.dumps({"sessionId": f"{plan.run}-{self._number}", "chatInput": "hello"})
        head = (
            f"POST {address.path} HTTP/1.1\r\nhost: {address.netloc}\r\ncontent-type: application/json\r\n"
            f"accept: application/x-ndjson\r\ncontent-length: {len(body)}\r\n\r\n"
        )
        started = time.monotonic()
        writer.write(f"{head}{body}".encode())
        answer = await reader.readuntil(b"\r\n\r\n")
        if not answer.startswith(b"HTTP/1.1 200 ") or b"chunked" not in answer.lower():
            raise ValueError(f"{answer[:200]!r}")
        received = bytearray()
        first: float | None = None
        late: list[float] = []
        while size := int(await reader.readline(), 16):
            data = (await reader.readexactly(size + 2))[:-2]
            now = time.monotonic()
            received += data
            if (first is None or plan.model.startswith("stamps")) and (texts := CONTENT.findall(data)):
                first = first if first is not None else now
                late += [now * 1000 - int(made) / 1000 for made in re.findall(rb"@(\d+) ", b"".join(texts))]
        await reader.readexactly(2)
        self._check(bytes(received))
        self._result.first.append(((first or time.monotonic()) - started) * 1000)
        self._result.late += late

    def _check(self, received: bytes) -> None:
        text = b"".join(CONTENT.findall(received)).decode()
        if self._plan.model.startswith("stamps"):
            text = STAMP.sub(r"w\1 ", text)
        if text != "".join(f"w{index} " for index in range(self._plan.tokens)):
            raise ValueError(f"wrong text {text!r} in {received[-300:]!r}")
        last = received.rstrip().rpartition(b"\n")[2]
        if last != b"data: [DONE]" and b'"type":"end"' not in last:
            raise ValueError(f"the last line is {last!r}")


async def run(plan: Plan) -> Result:
    result = Result()
    users = [User(number, plan, result) for number in range(plan.users)]
    started = time.monotonic()
    await asyncio.gather(*(user.talk(plan.messages // plan.users) for user in users))
    result.seconds = time.monotonic() - started
    return result


if __name__ == "__main__":
    import uvloop

    print(json.dumps(asdict(uvloop.run(run(Plan(**json.loads(sys.argv[1])))))))
