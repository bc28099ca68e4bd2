from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator

import pytest
from redis.asyncio import Redis

from convoq.engine.reading import parse_workflow
from convoq.engine.workflow import Workflow
from convoq.errors import Conflict, NotFound
from convoq.nodes.registry import REGISTRY
from convoq.redis import async_client
from convoq.store.workflows import WorkflowStore
from tests.stack import chat_workflow, flush, valkey

Check = Callable[[WorkflowStore, Redis], Awaitable[None]]


@pytest.fixture(scope="module")
def own_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with valkey(tmp_path_factory.mktemp("store"), save="") as server:
        yield server.connection_url


@pytest.fixture
def with_store(own_url: str) -> Callable[[Check], None]:
    flush(own_url)
    ticks = iter(range(1000, 2000))

    def run(check: Check) -> None:
        async def main() -> None:
            async with async_client(own_url) as client:
                await check(WorkflowStore(client, clock=lambda: float(next(ticks))), client)

        asyncio.run(main())

    return run


def workflow(path: str, *, name: str = "", workflow_id: str = "", active: bool = True) -> Workflow:
    data = chat_workflow(path)
    data |= {"active": active, "name": name or data["name"], "id": workflow_id or data["id"]}
    return parse_workflow(data, source="test", registry=REGISTRY)


def test_what_was_saved_is_found_by_id_and_by_path(with_store: Callable[[Check], None]) -> None:
    async def check(store: WorkflowStore, client: Redis) -> None:
        record = await store.save(workflow("a", name="Grüße"))
        found = await store.get("wf-a")
        assert found is not None and found.name == "Grüße"
        assert found.version == record.version
        by_path = await store.by_path("a")
        assert by_path is not None and by_path.id == "wf-a"
        assert await store.get("other") is None
        assert await store.by_path("other") is None
        assert [await client.ttl(key) for key in ("convoq:wf:wf-a", "convoq:wf:paths", "convoq:wf:index")] == [-1] * 3
        assert (await store.export("wf-a"))["nodes"] == chat_workflow("a")["nodes"]

    with_store(check)


def test_list_gives_the_newest_change_first(with_store: Callable[[Check], None]) -> None:
    async def check(store: WorkflowStore, client: Redis) -> None:
        await store.save(workflow("a"))
        await store.save(workflow("b", active=False))
        assert [(r.id, r.active, r.paths, r.updated) for r in await store.list()] == [
            ("wf-b", False, ("b",), 1001.0),
            ("wf-a", True, ("a",), 1000.0),
        ]
        await store.save(workflow("a"))
        assert [r.id for r in await store.list()] == ["wf-a", "wf-b"]

    with_store(check)


def test_a_changed_path_frees_the_old_one(with_store: Callable[[Check], None]) -> None:
    async def check(store: WorkflowStore, client: Redis) -> None:
        await store.save(workflow("old", workflow_id="w"))
        await store.save(workflow("new", workflow_id="w"))
        assert await store.by_path("old") is None
        assert await store.by_path("new") is not None
        await store.save(workflow("old", workflow_id="v"))

    with_store(check)


def test_a_path_of_another_workflow_is_refused_and_nothing_is_changed(with_store: Callable[[Check], None]) -> None:
    async def check(store: WorkflowStore, client: Redis) -> None:
        await store.save(workflow("a", workflow_id="first"))
        with pytest.raises(Conflict, match=r"path 'a' of workflow .* belongs to workflow 'first'"):
            await store.save(workflow("a", workflow_id="second"))
        assert [record.id for record in await store.list()] == ["first"]
        assert await store.get("second") is None

    with_store(check)


def test_of_many_who_want_a_path_at_once_one_gets_it(with_store: Callable[[Check], None]) -> None:
    async def check(store: WorkflowStore, client: Redis) -> None:
        wishes = [store.save(workflow("a", workflow_id=f"w{n}")) for n in range(8)]
        results = await asyncio.gather(*wishes, return_exceptions=True)
        assert sum(isinstance(result, Conflict) for result in results) == 7
        assert len(await store.list()) == 1

    with_store(check)


def test_delete_leaves_nothing(with_store: Callable[[Check], None]) -> None:
    async def check(store: WorkflowStore, client: Redis) -> None:
        await store.save(workflow("a"))
        await store.delete("wf-a")
        assert await client.keys("*") == []
        with pytest.raises(NotFound, match="'wf-a'"):
            await store.delete("wf-a")
        with pytest.raises(NotFound, match="'wf-a'"):
            await store.export("wf-a")

    with_store(check)
