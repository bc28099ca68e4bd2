"""A loopback model server for the bench: OpenAI's streamed chat completions on raw asyncio, so that it costs little.

The model's name tells what it does: `words-20-0` gives 20 tokens `w0 w1 …` with 0 ms between them; `stamps-50-20` gives
50 tokens 20 ms apart, each with the monotonic time in microseconds at which it was made (`w3@123456 `), which every
process of this machine can compare with its own clock.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
import time

MODEL = re.compile(r"(words|stamps)-(\d+)-(\d+)")
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
BASE = '{"id":"chatcmpl-bench","object":"chat.completion.chunk","created":0,"model":"bench","choices":[{"index":0,'


def _event(data: str) -> bytes:
    line = f"data: {data}\n\n".encode()
    return b"%x\r\n%b\r\n" % (len(line), line)


def _delta(text: str) -> bytes:
    return _event(f'{BASE}"delta":{{"content":"{text}"}},"finish_reason":null}}]}}')


BEGIN = _event(f'{BASE}"delta":{{"role":"assistant","content":""}},"finish_reason":null}}]}}')
FINISH = _event(f'{BASE}"delta":{{}},"finish_reason":"stop"}}]}}') + _event("[DONE]") + b"0\r\n\r\n"


async def answer(body: bytes, writer: asyncio.StreamWriter) -> None:
    request = json.loads(body)
    match = MODEL.fullmatch(request["model"])
    if match is None or not request["stream"]:
        raise ValueError(f"not a streamed request for a bench model: {request}")
    kind, tokens, delay_s = match[1], int(match[2]), int(match[3]) / 1000
    writer.write(HEAD + BEGIN)
    due = time.monotonic()
    for index in range(tokens):
        if delay_s:
            due += delay_s
            await asyncio.sleep(max(0.0, due - time.monotonic()))
        writer.write(_delta(f"w{index}@{time.monotonic_ns() // 1000} " if kind == "stamps" else f"w{index} "))
    writer.write(FINISH)
    await writer.drain()


async def serve_connection(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            length = re.search(rb"content-length: *(\d+)", head, re.I)
            await answer(await reader.readexactly(int(length[1])) if length else b"", writer)
    except (asyncio.IncompleteReadError, ConnectionError):
        pass  # the client has closed its connection
    finally:
        writer.close()


async def main(port: int) -> None:
    server = await asyncio.start_server(serve_connection, "127.0.0.1", port, backlog=1024)
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    try:
        import uvloop

        uvloop.run(main(int(sys.argv[1])))
    except KeyboardInterrupt:
        pass
