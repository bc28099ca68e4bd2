"""What is wrong in a workflow file is said all at once, each fault with its node and parameter."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from convoq.engine.reading import parse_workflow, parse_workflow_text
from convoq.engine.workflow import Workflow
from convoq.errors import InvalidWorkflow
from convoq.nodes.registry import REGISTRY
from tests.engine.support import node, registry, workflow_json

CHAT = "@n8n/n8n-nodes-langchain.chatTrigger"
AGENT = "@n8n/n8n-nodes-langchain.agent"
MOCK = "convoq.lmChatMock"


def faults(data: object) -> list[tuple[str, str, str]]:
    with pytest.raises(InvalidWorkflow) as caught:
        parse_workflow(data, source="file.json", registry=registry(), strict=True)
    return [(fault.node, fault.parameter, fault.message) for fault in caught.value.faults]


def one(data: object) -> tuple[str, str, str]:
    (found,) = faults(data)
    return found


def file_of(*nodes: Any, links: tuple[str, ...] = (), **rest: Any) -> dict[str, Any]:
    return {**workflow_json(nodes, *links), **rest}


START = node("Start", "start")


@pytest.mark.parametrize(
    "data, where, message",
    [
        (None, ("", ""), "should be an object"),
        ([], ("", ""), "should be an object"),
        ("text", ("", ""), "should be an object"),
        ({}, ("", "nodes"), "Field required"),
        ({"nodes": {}}, ("", "nodes"), "valid list"),
        ({"nodes": [], "connections": []}, ("", "connections"), "valid dictionary"),
        ({"nodes": [], "id": "a/b"}, ("", "id"), "pattern"),
        ({"nodes": [], "name": "a\nb"}, ("", "name"), "pattern"),
        ({"nodes": [], "active": "maybe"}, ("", "active"), "boolean"),
        ({"nodes": [{}] * 1001}, ("", "nodes"), "at most 1000"),
        ({"nodes": [7]}, ("nodes.0", ""), "dictionary"),
        ({"nodes": [{"type": "start"}]}, ("nodes.0", "name"), "Field required"),
        ({"nodes": [{"name": "A"}]}, ("A", "type"), "Field required"),
        (file_of({**START, "parameters": []}), ("Start", "parameters"), "valid dictionary"),
        (file_of({**START, "position": "left"}), ("Start", "position"), "valid tuple"),
        (file_of({**START, "onError": "panic"}), ("Start", "onError"), "panic"),
        (file_of({**START, "maxTries": "many"}), ("Start", "maxTries"), "many"),
        (file_of(START, START), ("Start", "name"), "same name"),
        (file_of(node("A", "nope")), ("A", "type"), "unknown node type 'nope'"),
        (
            file_of({**START, "typeVersion": 0.5}),
            ("Start", "typeVersion"),
            "not supported (1 to 2 is)",
        ),
        (file_of({**START, "parameters": {"times": "x"}}), ("Start", "times"), "got 'x'"),
        (file_of(START, connections={"Start": 7}), ("Start", "connections"), "object"),
        (file_of(START, connections={"Start": {"main": 7}}), ("Start", "connections.main"), "list of lists"),
        (file_of(START, connections={"Start": {"main": [[7]]}}), ("Start", "connections.main.0.0"), '"node"'),
        (file_of(START, connections={"Start": {"ai_wish": []}}), ("Start", "connections"), "'ai_wish'"),
        (
            file_of(START, connections={"Start": {"main": [[{"node": "Start", "index": 10**9}]]}}),
            ("Start", "connections.main.0.0"),
            "0 to 99",
        ),
        (
            file_of(START, connections={"Start": {"main": [[{"node": "Start", "type": "ai_tool"}]]}}),
            ("Start", "connections.main.0.0"),
            "arrives as 'ai_tool'",
        ),
        (file_of(node("Say", "speaker")), ("Say", "connections.ai_languageModel"), "needs an enabled sub-node"),
        (
            file_of(
                node("Say", "speaker"),
                node("B", "brain", disabled=True),
                links=("B > Say ai_languageModel",),
            ),
            ("Say", "connections.ai_languageModel"),
            "needs an enabled sub-node",
        ),
        (file_of(START, node("W", "word"), links=("W > Start ai_tool",)), ("Start", "connections.ai_tool"), "takes no"),
        (file_of(START, node("W", "word"), links=("Start > W",)), ("W", "connections.main"), "is a sub-node"),
    ],
)
def test_each_fault_names_its_place(data: object, where: tuple[str, str], message: str) -> None:
    found = one(data)
    assert found[:2] == where
    assert message in found[2]


def test_connections_of_a_node_that_is_not_there_are_left_out_with_a_warning() -> None:
    """As n8n's editor leaves them behind."""
    data = file_of(START, node("A", "pass"), links=("Start > A", "Start > Gone", "Gone > A"))
    workflow = parse_workflow(data, source="file", registry=registry(), strict=True)
    assert [(edge.source, edge.target) for edge in workflow.connections] == [("Start", "A")]
    assert sorted(workflow.warnings) == [
        "'Gone' is not there: its connections are left out",
        "'Start' leads to 'Gone', which is not there: left out",
    ]


def test_a_sub_node_of_the_wrong_kind() -> None:
    data = file_of(
        node("Say", "speaker"),
        node("B", "brain"),
        node("W", "word"),
        links=("B > Say ai_languageModel", "W > Say ai_languageModel"),
    )
    assert one(data) == ("W", "connections.ai_languageModel", "does not supply 'ai_languageModel'")


def test_sub_nodes_that_supply_each_other() -> None:
    data = file_of(node("A", "word"), node("B", "word"), links=("A > B ai_tool", "B > A ai_tool"))
    assert {(name, message.split(",")[0]) for name, _, message in faults(data)} >= {
        ("A", "a sub-node that supplies itself"),
        ("B", "a sub-node that supplies itself"),
    }


def test_all_faults_come_at_once() -> None:
    data = file_of(
        START,
        node("A", "nope"),
        node("B", "pass", parameters={"times": "x"}),
        node("Say", "speaker"),
        connections={"Start": 7},
    )
    assert sorted(name for name, _, _ in faults(data)) == ["A", "B", "Say", "Start"]


def test_very_many_faults_are_counted() -> None:
    found = faults(file_of(*(node(f"N{n}", "nope") for n in range(900))))
    assert len(found) == 201 and found[-1][2] == "and 700 more faults"


@pytest.mark.parametrize("value", ["={{ $json.times }}", "=3"])
def test_an_expression_is_known_only_in_a_run(value: str) -> None:
    parse_workflow(
        file_of(node("A", "pass", parameters={"times": value})), source="f", registry=registry(), strict=True
    )


def test_notes_are_no_nodes() -> None:
    note = node("Note", "n8n-nodes-base.stickyNote", parameters={"content": "# Hello"})
    found = parse_workflow(file_of(START, note, links=("Note > Start",)), source="f", registry=registry(), strict=True)
    assert list(found.nodes) == ["Start"]


def deep(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize(
    "value",
    [
        deep(200),
        deep(50_000),
        float("nan"),
        float("inf"),
        10**400,
        {1: 2},
        {"a": b"x"},
        {"a": {1, 2}},
        "\ud800",
        object(),
    ],
    ids=["deep", "very deep", "nan", "inf", "huge", "key", "bytes", "set", "surrogate", "object"],
)
def test_what_is_no_json_is_refused(value: object) -> None:
    assert one(file_of({**START, "parameters": {"x": value}}))[2]


def test_what_leads_to_itself_is_refused() -> None:
    data: dict[str, Any] = {"nodes": []}
    data["nodes"].append(data)
    assert "nested deeper" in one(data)[2]


def test_what_is_too_large_is_refused() -> None:
    assert "larger than" in one({"nodes": [0] * 300_000})[2]
    assert "larger than" in one({"nodes": [], "x": "x" * 5_000_000})[2]


@pytest.mark.parametrize(
    "text",
    ["", "{", b"\xff\xfe", "[" * 100_000, '{"nodes": [NaN]}', "1" * 5000, " " * 20_000_000],
    ids=["empty", "cut off", "bytes", "deep", "nan", "digits", "long"],
)
def test_text_that_is_no_workflow(text: str | bytes) -> None:
    with pytest.raises(InvalidWorkflow) as caught:
        parse_workflow_text(text, source="file.json", registry=registry(), strict=True)
    assert "'file.json'" in caught.value.message


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=10,
)
NODE = st.fixed_dictionaries(
    {"name": st.sampled_from(["A", "B", "Start"]) | JSON, "type": st.sampled_from(["pass", CHAT, "word"]) | JSON},
    optional={
        key: JSON for key in ("parameters", "position", "typeVersion", "webhookId", "disabled", "id", "maxTries")
    },
)
TARGET = st.fixed_dictionaries({"node": st.sampled_from(["A", "B"]) | JSON}, optional={"type": JSON, "index": JSON})
KINDS = st.dictionaries(st.sampled_from(["main", "ai_tool"]), st.lists(st.lists(TARGET | JSON, max_size=2), max_size=2))
FILE = st.fixed_dictionaries(
    {"nodes": st.lists(NODE | JSON, max_size=4) | JSON},
    optional={
        "connections": st.dictionaries(st.sampled_from(["A", "B"]), KINDS | JSON, max_size=2) | JSON,
        **{key: JSON for key in ("id", "name", "active", "settings")},
    },
)


@settings(max_examples=300, deadline=None)
@given(FILE | JSON)
def test_nothing_but_its_own_error_comes_out(data: object) -> None:
    try:
        parse_workflow(data, source="f", registry={**registry(), **{CHAT: _chat()}}).plan  # noqa: B018
    except InvalidWorkflow as error:
        assert error.faults and json.dumps(error.as_dict())


def _chat() -> Any:
    from convoq.nodes.registry import REGISTRY

    return REGISTRY[CHAT]


def chat(**parameters: Any) -> dict[str, Any]:
    return node("When chat message received", CHAT, parameters=parameters, version=1.1)


def parsed(*nodes: dict[str, Any], **rest: Any) -> Workflow:
    return parse_workflow(file_of(*nodes, **rest), source="f", registry=REGISTRY, strict=True)


@pytest.mark.parametrize(
    "trigger, path",
    [
        (chat(path="/support/"), "support"),
        ({**chat(), "webhookId": "8a1f"}, "8a1f"),
        ({**chat(path="x"), "webhookId": "8a1f"}, "x"),
        (chat(), "wf-1/when-chat-message-received"),
    ],
)
def test_where_a_chat_comes_in(trigger: dict[str, Any], path: str) -> None:
    (found,) = parsed(trigger).chat_triggers()
    assert found.path == path


@pytest.mark.parametrize(
    "parameters, mode",
    [
        ({}, "lastNode"),
        ({"options": {"responseMode": "streaming"}}, "streaming"),
        ({"responseMode": "onReceived"}, "onReceived"),
        ({"responseMode": "onReceived", "options": {"responseMode": "lastNode"}}, "lastNode"),
        ({"availableInChat": True}, "streaming"),
    ],
)
def test_response_modes(parameters: dict[str, Any], mode: str) -> None:
    (found,) = parsed(chat(**parameters)).chat_triggers()
    assert found.parameters.response_mode == mode


@pytest.mark.parametrize(
    "nodes, parameter",
    [
        ([chat(path="a b")], "path"),
        ([chat(path="../x")], "path"),
        ([chat(path="={{ 1 }}")], "path"),
        ([{**chat(), "webhookId": "a?b"}], "webhookId"),
        ([chat(path="x"), {**chat(path="x"), "name": "Other"}], "path"),
        ([chat(options={"responseMode": "shout"})], "options.responseMode"),
        ([chat(public="={{ true }}")], "public"),
    ],
)
def test_bad_chat_triggers(nodes: list[dict[str, Any]], parameter: str) -> None:
    with pytest.raises(InvalidWorkflow) as caught:
        parsed(*nodes)
    assert [fault.parameter for fault in caught.value.faults] == [parameter]


def test_a_disabled_chat_trigger_is_not_there() -> None:
    workflow = parsed({**chat(path="x"), "disabled": True}, {**chat(path="x"), "name": "Other"})
    assert [info.node.name for info in workflow.chat_triggers()] == ["Other"]


def test_the_manual_chat_trigger_is_one_too() -> None:
    trigger = node("Chat", "@n8n/n8n-nodes-langchain.manualChatTrigger", version=1.1)
    assert [info.path for info in parsed(trigger).chat_triggers()] == ["wf-1/chat"]


def test_an_agent_needs_a_model() -> None:
    agent = node("Agent", AGENT, version=2)
    with pytest.raises(InvalidWorkflow, match="ai_languageModel"):
        parsed(chat(), agent)
    data = workflow_json([chat(), agent, node("Model", MOCK)], "Model > Agent ai_languageModel")
    assert parse_workflow(data, source="f", registry=REGISTRY, strict=True).sub_nodes("Agent", _model()) != []


def _model() -> Any:
    from convoq.contract.connections import ConnectionType

    return ConnectionType.LANGUAGE_MODEL


def test_id_and_version() -> None:
    first = parsed(chat(), id=None)
    assert first.id == first.version and len(first.version) == 16
    assert parsed({**chat(), "webhookId": "8a1f"}, id=None).id == "8a1f"
    assert parsed(chat(), id=7).id == "7"
    assert parsed(chat()).version != parsed(chat(path="x")).version
    assert parsed(chat(), updatedAt="today").version == parsed(chat()).version
    assert parsed(chat()).active is True and parsed(chat(), active=False).active is False
    data = file_of(chat(), tags=["kept"])
    assert parse_workflow(data, source="f", registry=REGISTRY, strict=True).definition == data
