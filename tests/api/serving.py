"""The scripted model server of the model tests, beside tests that are not async."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from anyio.from_thread import start_blocking_portal

from tests.models.server import Answer, ModelServer, model_server


@contextmanager
def serving(*answers: Answer) -> Iterator[ModelServer]:
    with (
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(model_server(*answers)) as server,
    ):
        yield server
