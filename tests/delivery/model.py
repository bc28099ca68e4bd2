"""A loopback model server for tests that have no event loop, and the chat that uses it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.models.server import Answer, ModelServer, model_server
from tests.stack import chat_workflow


@contextmanager
def model_thread(*answers: Answer) -> Iterator[ModelServer]:
    """`ModelServer` in a thread of its own; its `gone` and `requests` may be looked at from here."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="model", daemon=True)
    thread.start()
    server = model_server(*answers)
    try:
        yield asyncio.run_coroutine_threadsafe(server.__aenter__(), loop).result(10)
    finally:
        asyncio.run_coroutine_threadsafe(server.__aexit__(None, None, None), loop).result(10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        loop.close()


def model_workflow(path: str, model: ModelServer, **trigger: Any) -> dict[str, Any]:
    node = {
        "type": "@n8n/n8n-nodes-langchain.lmChatOpenAi",
        "typeVersion": 1.2,
        "parameters": {"model": {"__rl": True, "mode": "id", "value": "m"}, "options": {"baseURL": model.url}},
    }
    return chat_workflow(path, model=node, **trigger)
