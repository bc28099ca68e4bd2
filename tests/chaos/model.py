"""The suite's model server: OpenAI's streamed chat completions, each word telling whose it is.

The user's message `SESSION/NUMBER TOKENS FIRST_MS PACE_MS` is answered by TOKENS words `SESSION/NUMBER:INDEX#CALL `,
the first after FIRST_MS, the others PACE_MS apart. CALL is another one in each call of the model, so words of two
attempts at one message can be told apart.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import sys

from tests.loopback import HEAD, serve

BURST = 50
calls = itertools.count(1)


def _event(data: object) -> bytes:
    line = b"data: " + (data.encode() if isinstance(data, str) else json.dumps(data).encode()) + b"\n\n"
    return b"%x\r\n%b\r\n" % (len(line), line)


def _chunk(delta: dict[str, str], finish: str | None = None) -> bytes:
    return _event({"id": "c", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})


async def answer(body: bytes, writer: asyncio.StreamWriter) -> None:
    asked = next(m["content"] for m in reversed(json.loads(body)["messages"]) if m["role"] == "user")
    name, tokens, first_ms, pace_ms = asked.split()
    call = next(calls)
    await asyncio.sleep(int(first_ms) / 1000)
    if writer.is_closing():
        return
    writer.write(HEAD + _chunk({"role": "assistant", "content": ""}))
    for index in range(int(tokens)):
        if int(pace_ms) or index % BURST == 0:
            await writer.drain()
            await asyncio.sleep(int(pace_ms) / 1000)
        if writer.is_closing():
            return
        writer.write(_chunk({"content": f"{name}:{index}#{call} "}))
    writer.write(_chunk({}, "stop") + _event("[DONE]") + b"0\r\n\r\n")
    await writer.drain()


if __name__ == "__main__":
    try:
        asyncio.run(serve(int(sys.argv[1]), answer))
    except KeyboardInterrupt:
        pass
