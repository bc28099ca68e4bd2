from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import convoq.rq  # noqa: F401  # before any test imports rq itself, which would then know other keys
from tests.stack import Stack, chat_workflow, valkey


@pytest.fixture(scope="session")
def redis_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A real server of this test process's own."""
    with valkey(tmp_path_factory.mktemp("valkey"), save="") as server:
        yield server.connection_url


@pytest.fixture(scope="session")
def product(redis_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """API and two workers with a few chats; shared by the tests that kill nothing."""
    stack = Stack(tmp_path_factory.mktemp("product"), redis_url)
    try:
        stack.start_api(CONVOQ_ENCRYPTION_KEY="a long text")
        for _ in range(2):
            stack.start_worker(CONVOQ_ENCRYPTION_KEY="a long text")
        stack.wait_ready(workers=2)
        stack.install(chat_workflow("support"))
        stack.install(chat_workflow("ask", mode="lastNode"))
        yield stack
    finally:
        stack.stop()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path
