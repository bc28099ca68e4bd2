"""A memory node whose credential is not known: convoq's own Redis stands in for it, and says so each time."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from convoq.engine.reading import parse_workflow
from convoq.engine.report import report_on, stand_ins
from convoq.nodes.registry import REGISTRY
from tests.cli.support import convoq
from tests.stack import Stack, chat_workflow, until

REDIS = "@n8n/n8n-nodes-langchain.memoryRedisChat"
SAID = (
    "'Memory': credential 'mine' is not known: unless CONVOQ_MEMORY_STAND_IN=false, the history is kept in "
    "convoq's own Redis, for CONVOQ_MEMORY_TTL_S after each turn"
)


def definition(path: str = "stand-in", **memory: Any) -> dict[str, Any]:
    made = chat_workflow(path, mode="lastNode")
    made["nodes"][3] |= {"type": REDIS, "typeVersion": 1.5, "credentials": {"redis": {"id": "7", "name": "mine"}}}
    made["nodes"][3] |= memory
    return {**made, "active": True}


async def unknown(kind: str, reference: Mapping[str, Any]) -> None:
    return None


async def known(kind: str, reference: Mapping[str, Any]) -> Mapping[str, Any]:
    return {"host": "h"}


def test_what_is_said_of_a_workflow() -> None:
    workflow = parse_workflow(definition(), source="test", registry=REGISTRY)
    assert asyncio.run(report_on(workflow, unknown)).warnings == [SAID]
    assert asyncio.run(stand_ins(workflow, known)) == []
    bare = parse_workflow(definition(credentials={}), source="test", registry=REGISTRY)
    (said,) = asyncio.run(stand_ins(bare, unknown))
    assert said.startswith("'Memory': it has no Redis credential: ")
    for other in ({"disabled": True}, {"type": "@n8n/n8n-nodes-langchain.memoryPostgresChat", "credentials": {}}):
        workflow = parse_workflow(definition(**other), source="test", registry=REGISTRY)
        assert asyncio.run(stand_ins(workflow, unknown)) == []


@pytest.mark.slow
def test_it_is_told_at_import_at_the_start_and_in_each_run(folder: Path, redis_url: str) -> None:
    stack = Stack(folder, redis_url, env={"CONVOQ_PREFIX": "stand-in"})
    try:
        stack.start_api()
        stack.start_worker()
        stack.wait_ready(workers=1)
        reply = stack.request("POST", "/api/v1/workflows", definition())
        assert reply.status == 201, reply.body
        assert reply.json["warnings"] == [SAID]
        file = folder / "workflow.json"
        file.write_text(json.dumps(definition()))
        env = {"CONVOQ_REDIS_URL": redis_url, "CONVOQ_PREFIX": "stand-in"}
        imported = convoq("import", str(file), cwd=folder, env=env)
        assert f"warning: {SAID}" in imported.stderr
        for text in ("my name is Ada", "what is my name?"):
            reply = stack.say("stand-in", text)
            assert "Ada" in reply.json["output"]
            runs = stack.execution(reply.headers["x-execution-id"])["data"]
            assert SAID.replace("'Memory'", "Memory") in [note for run in runs for note in run.get("notes", ())]
        worker = stack.start_worker(CONVOQ_MEMORY_STAND_IN="false")
        until(lambda: SAID in worker.log.read_text().replace("\\'", "'"), "the worker to tell of it")
        stack.wait_ready(workers=2)
        for process in stack.processes[1:-1]:
            process.stop()
        stack.wait_ready(workers=1)
        reply = stack.say("stand-in", "and now?")
        assert reply.status == 500
        assert stack.execution(reply.headers["x-execution-id"])["error"]["code"] == "credential_missing"
    finally:
        stack.stop()
