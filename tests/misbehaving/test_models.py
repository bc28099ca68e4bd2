"""Each adapter against a server that misbehaves, by the whole agent: what is not the model's to say reaches nobody."""

from __future__ import annotations

import asyncio

import pytest
from structlog.testing import capture_logs

from convoq.contract.model import ModelSettings, ToolSpec
from convoq.memory.local import LocalMemories
from convoq.protocol import End, Item, Reasoning
from tests.agent.harness import SIMPLE_MEMORY, Bench, ScriptedTool, agent_run, turns
from tests.misbehaving.adapters import ADAPTERS, Adapter
from tests.misbehaving.case import Case, Expect
from tests.models.server import ModelServer, model_server

DEADLINE_S = 30.0
CITY = ToolSpec("Weather", "tells it", {"type": "object", "properties": {"city": {"type": "string"}}})


ALL = [pytest.param(adapter, case, id=f"{adapter.name}: {case.name}") for adapter in ADAPTERS for case in adapter.cases]


@pytest.mark.parametrize("streaming", [True, False], ids=["streamed", "one reply"])
@pytest.mark.parametrize(("adapter", "case"), ALL)
def test_a_server_that_misbehaves(adapter: Adapter, case: Case, streaming: bool) -> None:
    wire = adapter.wire()
    weather, memories = ScriptedTool(CITY, "sunny"), LocalMemories()
    settings = ModelSettings(
        first_byte_timeout_s=case.first_byte_timeout_s,
        between_chunks_timeout_s=case.between_chunks_timeout_s,
        max_retries=case.retries,
    )

    async def main() -> tuple[Bench, ModelServer]:
        async with (
            asyncio.timeout(DEADLINE_S),
            model_server(*case.answers(wire)) as server,
            adapter.open(server.url, settings) as model,
        ):
            bench = await agent_run(
                {"Model": model},
                tools={"Weather": weather},
                memory=SIMPLE_MEMORY,
                memories=memories,
                streaming=streaming,
                reasoning=True,
            )
            return bench, server

    with capture_logs() as logs:
        bench, server = asyncio.run(main())
    expect = case.expect
    error = bench.outcome.error
    if case.name in adapter.gives_up:
        assert error is not None and error.code == "model_failed"
        assert adapter.gives_up[case.name] in error.message
        assert turns(memories) == []
        return
    check_outcome(bench, expect)
    if streaming:
        check_stream(bench, expect)
    else:
        assert bench.chunks == []
    assert "".join(bench.thoughts) == ("" if streaming else expect.reasoning)
    assert len(server.requests) == expect.requests
    assert [dict(arguments) for arguments in weather.called] == [dict(arguments) for _, arguments in expect.calls]
    if expect.told:
        results = wire.results(server.requests[-1])
        assert results and all(expect.told in told for _, told in results)
        ids = [id for id, _ in results]
        assert len(set(ids)) == len(ids) and all(0 < len(id) <= 64 for id in ids)
    remembered = [turn.answer for turn in turns(memories)]
    assert remembered == ([bench.output["output"]] if error is None and expect.remembered else [])
    notes = [note for run in bench.runs_of("Model") for note in run.notes]
    assert any(expect.note in note for note in notes) if expect.note else notes == []
    assert expect.logged in [entry["event"] for entry in logs] or not expect.logged


def check_outcome(bench: Bench, expect: Expect) -> None:
    error = bench.outcome.error
    if expect.error:
        assert error is not None, bench.outcome
        assert error.code == expect.error
        assert expect.said in error.message
        (failed,) = {(run.error or {}).get("code") for run in bench.runs_of("Model")[-1:]}
        assert failed == expect.error
    else:
        assert error is None, error
        assert bench.output.get("finishReason", "") == expect.cut
        assert bench.output["output"] and expect.read.endswith(bench.output["output"])


def check_stream(bench: Bench, expect: Expect) -> None:
    assert "".join(chunk.content for chunk in bench.chunks if isinstance(chunk, Item)) == expect.read
    assert "".join(chunk.content for chunk in bench.chunks if isinstance(chunk, Reasoning)) == expect.reasoning
    ends = [chunk.metadata.finish_reason for chunk in bench.chunks if isinstance(chunk, End)]
    if expect.cut:
        assert ends[-1] == expect.cut
