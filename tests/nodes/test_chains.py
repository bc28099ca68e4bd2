"""Chains, output parsers, and agents that answer in a form."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from convoq.contract.execution import ExecutionInfo
from convoq.contract.items import Item
from convoq.contract.model import SystemMessage, ToolCall, UserMessage
from convoq.contract.services import Services
from convoq.engine.outcome import Outcome
from convoq.engine.reading import parse_workflow
from convoq.engine.run import WorkflowRun
from convoq.errors import NodeFailed, OutputNotParsed
from convoq.memory.local import LocalMemories
from convoq.nodes.chains.summarization import cut
from convoq.nodes.parsers.item_list import ItemListParser
from convoq.nodes.parsers.reading import Schema, json_in
from convoq.nodes.registry import REGISTRY
from convoq.settings import Settings
from tests.agent.harness import AGENT, TRIGGER, ScriptedModel, Supplies, no_http, node

LANGCHAIN = "@n8n/n8n-nodes-langchain"
STRUCTURED = f"{LANGCHAIN}.outputParserStructured"
EXAMPLE = {"jsonSchemaExample": '{"name": "Bob", "age": 1}'}
ADA = {"name": "Ada", "age": 36}


def run(
    kind: str,
    parameters: Mapping[str, Any],
    replies: Sequence[Any],
    *,
    version: float = 1,
    parser: Mapping[str, Any] | None = None,
    items: Sequence[Mapping[str, Any]] = ({"chatInput": "who"},),
    **more: Any,
) -> tuple[Outcome, ScriptedModel, WorkflowRun]:
    """Chat -> the node, with a scripted model and, if given, a structured parser (its version 1.3)."""
    model = ScriptedModel([[reply] if isinstance(reply, str) else reply for reply in replies])
    registry = {name: REGISTRY[name] for name in REGISTRY} | {"test.model": Supplies({"Model": model})}
    nodes = [
        node("Chat", TRIGGER, 1.1, webhookId="h"),
        node("Node", kind, version, parameters=dict(parameters), **more),
        node("Model", "test.model"),
    ]
    to_node = [[{"node": "Node", "type": "ai_languageModel", "index": 0}]]
    connections: dict[str, Any] = {
        "Chat": {"main": [[{"node": "Node", "type": "main", "index": 0}]]},
        "Model": {"ai_languageModel": to_node},
    }
    if parser is not None:
        nodes.append(node("Parser", STRUCTURED, 1.3, parameters=dict(parser)))
        connections["Parser"] = {"ai_outputParser": [[{"node": "Node", "type": "ai_outputParser", "index": 0}]]}
        to_node[0].append({"node": "Parser", "type": "ai_languageModel", "index": 0})
    data = {"id": "wf", "name": "W", "nodes": nodes, "connections": connections}
    workflow = parse_workflow(data, source="t", registry=registry, strict=True)
    services = Services(Settings(model_empty_retries=0), LocalMemories(), no_http)
    info = ExecutionInfo("x", 1, "wf", "W", "s", "production", 0.0)
    started = WorkflowRun(workflow, info, services)
    return asyncio.run(started.start("Chat", [Item(dict(item)) for item in items])), model, started


def value(outcome: Outcome) -> dict[str, Any]:
    assert outcome.error is None, outcome.error
    return dict(outcome.items[0])


def outputs(started: WorkflowRun) -> list[list[dict[str, Any]]]:
    return next(record.outputs for record in started.run_data if record.node == "Node")


def final(arguments: object) -> list[Any]:
    return [ToolCall("c", "format_final_json_response", json.dumps(arguments))]


@pytest.mark.parametrize(
    "reply",
    [
        final({"output": ADA}),
        final(ADA),
        json.dumps(ADA),
        json.dumps({"output": ADA}),
        f"Sure:\n```json\n{json.dumps({'output': ADA})}\n```\nAnything else?",
        f"Here it is {json.dumps(ADA)}.",
    ],
)
def test_an_agent_answers_in_a_form(reply: Any) -> None:
    outcome, model, _ = run(AGENT, {"hasOutputParser": True}, [reply], version=2.2, parser=EXAMPLE)
    assert value(outcome) == {"output": ADA}
    (offered,) = model.offered[0]
    assert offered.name == "format_final_json_response"
    assert offered.parameters["properties"]["output"]["required"] == ["name", "age"]
    assert isinstance(model.asked[0][0], SystemMessage) and offered.name in model.asked[0][0].content


@pytest.mark.parametrize("reply", [final({"name": "Ada", "age": "old"}), "I do not know", final({"x": 1}), final(7)])
def test_an_answer_in_another_form_is_an_error_that_says_what_is_wrong(reply: Any) -> None:
    outcome, _, _ = run(AGENT, {"hasOutputParser": True}, [reply], version=2.2, parser=EXAMPLE)
    assert outcome.error is not None and outcome.error.code == "output_not_parsed"


def test_a_parser_mends_itself() -> None:
    parser = {**EXAMPLE, "autoFix": True}
    outcome, model, _ = run(
        AGENT, {"hasOutputParser": True}, ["no JSON at all", json.dumps(ADA)], version=3, parser=parser
    )
    assert value(outcome) == {"output": ADA}
    asked = model.asked[1][0]
    assert isinstance(asked, UserMessage) and "no JSON at all" in asked.content and "holds no JSON" in asked.content


def test_a_schema_by_hand() -> None:
    schema = {"type": "object", "properties": {"n": {"type": "number"}}, "required": ["n"]}
    for reply, good in (('{"n": 1}', True), ("{}", False)):
        outcome, _, _ = run(
            AGENT,
            {"hasOutputParser": True},
            [reply],
            version=2,
            parser={"schemaType": "manual", "inputSchema": json.dumps(schema)},
        )
        assert (outcome.error is None) is good


@pytest.mark.parametrize("schema", ['{"type": "nonsense"}', "{", "7"])
def test_a_schema_that_is_none(schema: str) -> None:
    outcome, _, _ = run(
        AGENT, {"hasOutputParser": True}, ["{}"], version=2, parser={"schemaType": "manual", "inputSchema": schema}
    )
    assert outcome.error is not None and "schema" in outcome.error.message.lower()


def test_references_of_a_schema_fetch_nothing() -> None:
    with pytest.raises(NodeFailed, match="cannot be used"):
        Schema({"$ref": "http://127.0.0.1:1/schema.json"}).check({})


def test_no_json() -> None:
    with pytest.raises(OutputNotParsed, match="holds no JSON"):
        json_in("none { of } it")
    with pytest.raises(OutputNotParsed):
        json_in("[" * 100_000)


@pytest.mark.parametrize(
    "version, parameters, prompt, found",
    [
        (1.7, {}, "who", {"text": "Ada"}),
        (1.4, {"promptType": "define", "text": "=do {{ $json.chatInput }}"}, "do who", {"response": {"text": "Ada"}}),
        (1, {"prompt": "={{ $json.chatInput }}!"}, "who!", {"response": {"text": "Ada"}}),
    ],
)
def test_the_basic_chain(version: float, parameters: Any, prompt: str, found: Any) -> None:
    outcome, model, _ = run(f"{LANGCHAIN}.chainLlm", parameters, ["Ada"], version=version)
    assert value(outcome) == found and model.asked[0] == [UserMessage(prompt)]


def test_messages_before_the_prompt_of_a_chain() -> None:
    given = [
        {"message": "be brief"},
        {"type": "HumanMessagePromptTemplate", "message": "2+2?"},
        {"type": "AIMessagePromptTemplate", "message": "4"},
    ]
    _, model, _ = run(f"{LANGCHAIN}.chainLlm", {"messages": {"messageValues": given}}, ["Ada"], version=1.7)
    assert [type(message).__name__ for message in model.asked[0]] == [
        "SystemMessage",
        "UserMessage",
        "AssistantMessage",
        "UserMessage",
    ]


def test_a_chain_with_a_parser() -> None:
    outcome, model, _ = run(
        f"{LANGCHAIN}.chainLlm", {"hasOutputParser": True}, [json.dumps({"output": ADA})], version=1.7, parser=EXAMPLE
    )
    assert value(outcome) == {"output": ADA} and "JSON schema" in model.asked[0][-1].content


def test_a_chain_without_a_prompt() -> None:
    outcome, _, _ = run(f"{LANGCHAIN}.chainLlm", {}, ["Ada"], version=1.7, items=[{"other": 1}])
    assert outcome.error is not None and "'chatInput' is empty" in outcome.error.message


CATEGORIES = {"categories": {"categories": [{"category": "pet", "description": "animals"}, {"category": "car"}]}}


def test_the_classifier_sends_each_item_its_way() -> None:
    parameters = {**CATEGORIES, "inputText": "={{ $json.t }}", "options": {"fallback": "other"}}
    replies = [
        json.dumps({"pet": False, "car": True, "other": False}),
        json.dumps({"output": {"pet": False, "car": False, "other": True}}),
    ]
    outcome, model, started = run(
        f"{LANGCHAIN}.textClassifier", parameters, replies, version=1.1, items=[{"t": "a bmw"}, {"t": "rain"}]
    )
    assert outcome.error is None, outcome.error
    assert outputs(started) == [[], [{"t": "a bmw"}], [{"t": "rain"}]]
    assert "pet, car" in model.asked[0][0].content


def test_a_classifier_that_fails_for_one_item() -> None:
    parameters = {**CATEGORIES, "inputText": "={{ $json.t }}"}
    replies = ["no", "no", json.dumps({"pet": True, "car": True})]
    _, _, started = run(
        f"{LANGCHAIN}.textClassifier",
        parameters,
        replies,
        items=[{"t": "x"}, {"t": "y"}],
        onError="continueErrorOutput",
    )
    found = outputs(started)
    assert found[0] == [{"t": "y"}] and found[1] == [] and found[2][0]["t"] == "x" and "error" in found[2][0]


def test_sentiment() -> None:
    reply = json.dumps({"sentiment": "Negative", "strength": 0.9, "confidence": 0.8})
    parameters = {"inputText": "={{ $json.t }}", "options": {"includeDetailedResults": True}}
    _, _, started = run(f"{LANGCHAIN}.sentimentAnalysis", parameters, [reply], items=[{"t": "bad"}])
    detail = {"category": "Negative", "strength": 0.9, "confidence": 0.8}
    assert outputs(started) == [[], [], [{"t": "bad", "sentimentAnalysis": detail}]]


def test_the_extractor() -> None:
    attributes = {
        "attributes": [{"name": "city", "description": "where", "required": True}, {"name": "n", "type": "number"}]
    }
    parameters = {"text": "={{ $json.t }}", "attributes": attributes}
    outcome, model, _ = run(
        f"{LANGCHAIN}.informationExtractor", parameters, ['{"city": "Rome"}'], items=[{"t": "in Rome"}]
    )
    assert value(outcome) == {"output": {"city": "Rome"}} and model.asked[0][-1].content.startswith("in Rome")
    kind = f"{LANGCHAIN}.informationExtractor"
    outcome, _, _ = run(kind, parameters, ['{"n": 1}'], items=[{"t": "in Rome"}])
    assert outcome.error is not None and "city" in outcome.error.message


def test_the_summary_of_a_long_text() -> None:
    text = "word " * 60
    outcome, model, _ = run(
        f"{LANGCHAIN}.chainSummarization",
        {"chunkSize": 120, "chunkOverlap": 0},
        ["part", "part", "part", "part", "all"],
        version=2.1,
        items=[{"t": text}],
    )
    assert value(outcome)["output"]["text"] in ("part", "all") and len(model.asked) >= 3
    assert "part\n\npart" in model.asked[-1][0].content


def test_cutting_a_text() -> None:
    assert cut("abc", 10, 3) == ["abc"] and cut("", 10, 3) == []
    assert cut("aaaa bbbb cccc", 10, 0) == ["aaaa bbbb", "cccc"]
    assert all(len(piece) <= 20 for piece in cut("x" * 100, 20, 5)) and len(cut("x" * 100, 20, 5)) == 7


def test_a_list_of_items() -> None:
    parser = ItemListParser(2, ",")
    assert asyncio.run(parser.parse("a, b, c")) == ["a", "b"]
    with pytest.raises(OutputNotParsed, match="1 items"):
        asyncio.run(parser.parse("a"))
