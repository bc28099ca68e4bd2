"""The suite's model server: OpenAI's streamed chat completions, each word telling whose it is.

The user's message `SESSION/NUMBER TOKENS FIRST_MS PACE_MS` is answered by TOKENS words `SESSION/NUMBER:INDEX#CALL `,
the first after FIRST_MS, the others PACE_MS apart. CALL is another one in each call of the model, so words of two
attempts at one message can be told apart.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import re
import sys

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
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


async def serve_connection(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            length = re.search(rb"content-length: *(\d+)", head, re.I)
            await answer(await reader.readexactly(int(length[1])) if length else b"", writer)
    except (asyncio.IncompleteReadError, OSError):
        pass  # the worker has closed its connection, or is dead
    finally:
        writer.close()


async def main(port: int) -> None:
    server = await asyncio.start_server(serve_connection, "127.0.0.1", port, backlog=1024)
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    try:
        asyncio.run(main(int(sys.argv[1])))
    except KeyboardInterrupt:
        pass
