from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.mongo import mongo
from tests.postgres import postgres


@pytest.fixture(scope="session")
def postgres_fields() -> Iterator[dict[str, Any]]:
    """The fields of a credential for a real PostgreSQL of this test process's own."""
    with postgres() as fields:
        yield fields


@pytest.fixture(scope="session")
def mongo_fields() -> Iterator[dict[str, Any]]:
    """The same for a real MongoDB."""
    with mongo() as server:
        yield {"connectionString": server.url, "database": "convoq_test"}
