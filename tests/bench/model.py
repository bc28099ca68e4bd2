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

from tests.loopback import HEAD, serve

MODEL = re.compile(r"(words|stamps)-(\d+)-(\d+)")
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


if __name__ == "__main__":
    try:
        import uvloop

        uvloop.run(serve(int(sys.argv[1]), answer))
    except KeyboardInterrupt:
        pass
