"""Files as people have them: nothing in one crashes the import, and a report says what it is fit for."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from convoq.engine.exports import definitions_in
from convoq.engine.reading import parse_workflow
from convoq.engine.report import Report, report_on
from convoq.engine.workflow import Workflow
from convoq.errors import InvalidWorkflow
from convoq.nodes.registry import REGISTRY
from tests.engine.support import node, run, workflow_json

CHAT, AGENT = "@n8n/n8n-nodes-langchain.chatTrigger", "@n8n/n8n-nodes-langchain.agent"
MODEL, OPENAI = "convoq.lmChatMock", "@n8n/n8n-nodes-langchain.lmChatOpenAi"
CALCULATOR = "@n8n/n8n-nodes-langchain.toolCalculator"


def read(data: object) -> Workflow:
    return parse_workflow(data, source="file", registry=REGISTRY)


def report(data: object, *known: str) -> Report:
    async def credential(kind: str, reference: Mapping[str, Any]) -> Mapping[str, Any] | None:
        return {"apiKey": "x"} if kind in known else None

    return asyncio.run(report_on(read(data), credential))


def chat(*more: dict[str, Any], links: tuple[str, ...] = (), model: str = MODEL) -> dict[str, Any]:
    nodes = [node("Chat", CHAT, webhookId="h"), node("Agent", AGENT, version=2), node("Model", model), *more]
    return workflow_json(nodes, "Chat > Agent", "Model > Agent ai_languageModel", *links)


BARE = chat()
SHAPES: Mapping[str, object] = {
    "bare": BARE,
    "wrapped": {"workflow": BARE},
    "a list": [BARE],
    "n8n's REST API": {"data": [BARE], "nextCursor": None},
    "the template API": {"workflow": {"id": 1, "name": "Template", "workflow": {**BARE, "name": None}}},
    "a snippet": {"nodes": BARE["nodes"], "connections": BARE["connections"], "pinData": {"Chat": [{"json": {}}]}},
}


@pytest.mark.parametrize("shape", SHAPES)
def test_every_shape_in_which_a_workflow_is_met(shape: str) -> None:
    (definition,) = definitions_in(SHAPES[shape])
    assert set(read(definition).nodes) == {"Chat", "Agent", "Model"}


def test_a_wrapper_gives_its_name_and_nothing_is_found_in_nothing() -> None:
    assert definitions_in(SHAPES["the template API"])[0]["name"] == "Template"
    assert definitions_in([]) == definitions_in({"connections": {}}) == definitions_in("text") == []
    assert len(definitions_in([BARE, 7, {"workflow": BARE}])) == 2


@pytest.mark.parametrize(
    "change, said",
    [
        ({"settings": "none"}, "settings"),
        ({"active": "maybe"}, "active"),
        ({"id": "a/b"}, "id"),
        ({"connections": []}, "connections"),
    ],
)
def test_what_has_a_wrong_shape_is_dropped_with_a_warning(change: dict[str, Any], said: str) -> None:
    workflow = read({**BARE, **change})
    assert set(workflow.nodes) == {"Chat", "Agent", "Model"}
    assert any(said in warning for warning in workflow.warnings)


def test_nodes_of_a_wrong_shape_are_mended() -> None:
    data = chat(
        {"type": "n8n-nodes-base.set", "position": "left", "typeVersion": 3.4},
        {"name": "Agent", "type": "n8n-nodes-base.set", "typeVersion": 3.4, "parameters": []},
        {"name": "No type"},
        "no node",  # type: ignore[arg-type]
    )
    workflow = read(data)
    assert set(workflow.nodes) == {"Chat", "Agent", "Model", "set", "Agent 1"}
    assert len([warning for warning in workflow.warnings if "No type" in warning or "nodes.6" in warning]) == 2


def test_only_a_file_without_nodes_is_refused() -> None:
    refused: list[object] = [None, [], {}, {"nodes": {}}, {"nodes": [{}] * 1001}]
    for data in refused:
        with pytest.raises(InvalidWorkflow):
            read(data)


def test_ready() -> None:
    found = report(BARE)
    assert (found.state, found.left_out, found.in_the_way, found.credentials) == ("ready", [], [], [])
    assert found.chats == ["h"]


def test_a_tool_that_cannot_run_is_left_out_and_the_agent_answers() -> None:
    data = chat(
        node("Search", "some.unknownTool"),
        node("Calculator", CALCULATOR),
        links=("Search > Agent ai_tool", "Calculator > Agent ai_tool"),
    )
    found = report(data)
    assert found.state == "ready without"
    assert [(one.node, one.type) for one in found.left_out] == [("Search", "some.unknownTool")]
    assert "unknown node type" in found.left_out[0].why
    assert [tool.name for tool in read(data).sub_nodes("Agent", REGISTRY[CALCULATOR].supplies)] == ["Calculator"]  # type: ignore[union-attr]


def test_a_tool_is_left_out_for_want_of_what_supplies_it() -> None:
    data = chat(
        node("Helper", "@n8n/n8n-nodes-langchain.agent", version=2),
        node("Strange", "some.lmChat"),
        links=("Strange > Helper ai_languageModel", "Helper > Agent ai_tool"),
    )
    assert "Helper" not in {found.name for found in read(data).sub_nodes("Agent", REGISTRY[CALCULATOR].supplies)}  # type: ignore[union-attr]


def test_a_node_in_the_way_fails_when_it_is_reached() -> None:
    data = chat(node("Sheet", "n8n-nodes-base.nowhere"), links=("Agent > Sheet",))
    found = report(data)
    assert found.state == "not runnable"
    assert [(one.node, one.type) for one in found.in_the_way] == [("Sheet", "n8n-nodes-base.nowhere")]
    outcome = run(read({**data, "nodes": [*data["nodes"], node("Start", "start")]}), {"chatInput": "hi"}).found
    assert outcome is not None and outcome.error is not None  # there is no trigger of that name in the real registry


def test_what_the_chat_never_reaches_is_nobodys_business() -> None:
    data = chat(
        node("Hook", "n8n-nodes-base.nowhereTrigger"),
        node("Sheet", "n8n-nodes-base.nowhere"),
        node("Off", "n8n-nodes-base.nowhere", disabled=True),
        links=("Hook > Sheet", "Agent > Off"),
    )
    assert report(data).state == "ready"


def test_a_wrong_parameter_stands_in_the_way_and_is_named() -> None:
    data = chat()
    data["nodes"][1]["parameters"] = {"options": {"maxIterations": "many"}}
    found = report(data)
    assert found.state == "not runnable"
    assert found.in_the_way[0].node == "Agent" and "options.maxIterations" in found.in_the_way[0].why


def test_no_trigger() -> None:
    data = chat()
    data["nodes"][0]["disabled"] = True
    assert report(data).state == "not runnable" and "Chat Trigger" in report(data).in_the_way[0].why


def test_credentials_that_are_needed_and_known() -> None:
    data = chat(model=OPENAI)
    data["nodes"][2]["credentials"] = {"openAiApi": {"id": "1", "name": "Mine"}}
    (needed,) = report(data).credentials
    assert (needed.kinds, needed.name, needed.nodes) == (("openAiApi",), "Mine", ("Model",))
    assert report(data).state == "ready"
    assert report(data, "openAiApi").credentials == []


def test_newer_versions_and_unknown_parameters_are_warnings() -> None:
    data = chat()
    data["nodes"][1] |= {"typeVersion": 99, "parameters": {"zoo": 1}}
    warnings = " ".join(read(data).warnings)
    assert "version 99 is newer" in warnings and "unknown parameters are ignored: zoo" in warnings
    assert report(data).state == "ready"


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=12,
)


@settings(max_examples=150, deadline=None)
@given(
    key=st.sampled_from(
        ["name", "type", "typeVersion", "position", "parameters", "credentials", "onError", "disabled"]
    ),
    value=json_values,
    index=st.integers(0, 2),
)
def test_nothing_in_a_node_crashes_the_import(key: str, value: object, index: int) -> None:
    data = json.loads(json.dumps(BARE))
    data["nodes"][index][key] = value
    asyncio.run(report_on(read(data), _none))


@settings(max_examples=150, deadline=None)
@given(connections=json_values, more=json_values)
def test_nothing_in_connections_crashes_the_import(connections: object, more: object) -> None:
    data = {**BARE, "connections": connections, "settings": more}
    asyncio.run(report_on(read(data), _none))


async def _none(kind: str, reference: Mapping[str, Any]) -> Mapping[str, Any] | None:
    return None
