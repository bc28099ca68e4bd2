from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.stack import valkey


@pytest.fixture(scope="session")
def redis_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server of these tests' own: they empty it, break its clients' connections and make it forget its scripts."""
    with valkey(tmp_path_factory.mktemp("valkey-stream"), save="") as server:
        yield server.connection_url
