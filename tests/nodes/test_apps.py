"""The nodes of providers' applications: one model, asked by itself."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from convoq.contract.execution import ExecutionInfo
from convoq.contract.items import Item
from convoq.contract.model import AssistantMessage, SystemMessage, ToolCall, UserMessage
from convoq.contract.services import Services
from convoq.engine.outcome import Outcome
from convoq.engine.reading import parse_workflow
from convoq.engine.run import WorkflowRun
from convoq.memory.local import LocalMemories
from convoq.models.making import ModelMaker
from convoq.nodes.registry import REGISTRY
from convoq.settings import Settings
from tests.agent.harness import CALCULATOR, TRIGGER, ScriptedModel, no_http, node

OPENAI, GEMINI = "@n8n/n8n-nodes-langchain.openAi", "@n8n/n8n-nodes-langchain.googleGemini"


def ask(
    kind: str, version: float, parameters: Mapping[str, Any], replies: Sequence[Any], *, key: bool = True
) -> tuple[Outcome, ScriptedModel, list[tuple[Any, ...]]]:
    """What comes of it, the model that was asked, and what it was made of."""
    model = ScriptedModel([[reply] if isinstance(reply, str) else reply for reply in replies])
    made: list[tuple[Any, ...]] = []

    def make(*given: Any) -> ScriptedModel:
        made.append(given[1:])
        return model

    async def credential(kind: str, reference: Mapping[str, Any]) -> Mapping[str, Any] | None:
        return {"apiKey": "secret-key"} if key else None

    nodes = [
        node("Chat", TRIGGER, 1.1, webhookId="h"),
        node("App", kind, version, parameters=dict(parameters)),
        node("Calculator", CALCULATOR),
    ]
    connections = {"Chat": {"main": [[{"node": "App", "type": "main", "index": 0}]]}}
    if parameters.pop("tool", False):  # type: ignore[attr-defined]
        connections["Calculator"] = {"ai_tool": [[{"node": "App", "type": "ai_tool", "index": 0}]]}
    data = {"id": "wf", "name": "W", "nodes": nodes, "connections": connections}
    workflow = parse_workflow(data, source="t", registry=REGISTRY)
    services = Services(Settings(), LocalMemories(), no_http, credential=credential, parts=[ModelMaker(make)])
    run = WorkflowRun(workflow, ExecutionInfo("x", 1, "wf", "W", "s", "production", 0.0), services)
    return asyncio.run(run.start("Chat", [Item({"chatInput": "hi"})])), model, made


def messages(*pairs: tuple[str, str]) -> dict[str, Any]:
    return {"values": [{"role": role, "content": content} for role, content in pairs]}


def test_a_message_to_openai() -> None:
    given = messages(("system", "be brief"), ("assistant", "yes?"), ("user", "={{ $json.chatInput }}"))
    parameters = {"modelId": {"__rl": True, "value": "gpt-x"}, "messages": given, "options": {"temperature": 0.1}}
    outcome, model, made = ask(OPENAI, 1.8, parameters, ["Hello"])
    assert outcome.error is None, outcome.error
    assert outcome.items[0]["message"]["content"] == "Hello" and outcome.items[0]["finish_reason"] == "stop"
    assert outcome.reply_text() == "Hello"
    assert model.asked == [[SystemMessage("be brief"), AssistantMessage("yes?"), UserMessage("hi")]]
    assert made[0][:3] == ("gpt-x", "https://api.openai.com/v1", "secret-key") and made[0][3].temperature == 0.1


def test_the_second_version_has_responses() -> None:
    parameters = {
        "modelId": "gpt-x",
        "responses": messages(("user", "go")),
        "options": {"textFormat": {"textOptions": {"type": "json_object"}}},
    }
    outcome, _, made = ask(OPENAI, 2, parameters, ['{"a": 1}'])
    assert outcome.error is None, outcome.error
    assert outcome.items[0]["output"][0]["content"][0]["text"] == {"a": 1}
    assert made[0][3].response_format == "json_object"


def test_json_that_is_none_is_an_error() -> None:
    parameters = {"modelId": "m", "messages": messages(("user", "go")), "jsonOutput": True}
    outcome, _, _ = ask(OPENAI, 1.8, parameters, ["no"])
    assert outcome.error is not None and "not JSON: 'no'" in outcome.error.message


def test_tools_of_a_message() -> None:
    parameters = {"modelId": "m", "messages": messages(("user", "go")), "tool": True}
    call = [ToolCall("c", "Calculator", json.dumps({"input": "2*3"}))]
    outcome, model, _ = ask(OPENAI, 1.8, parameters, [call, "six"])
    assert outcome.error is None, outcome.error
    assert outcome.reply_text() == "six" and model.asked[1][-1].content == "6"


@pytest.mark.parametrize(
    "parameters, said",
    [
        ({"messages": messages(("user", "go"))}, "'modelId' is empty"),
        ({"modelId": "m"}, "no message with a text"),
    ],
)
def test_what_is_missing(parameters: dict[str, Any], said: str) -> None:
    outcome, _, _ = ask(OPENAI, 1.8, parameters, ["x"])
    assert outcome.error is not None and said in outcome.error.message


def test_without_a_key() -> None:
    parameters = {"modelId": "m", "messages": messages(("user", "go"))}
    outcome, _, made = ask(OPENAI, 1.8, parameters, ["x"], key=False)
    assert outcome.error is not None and "no API key" in outcome.error.message and not made


def test_what_convoq_does_not_do_stands_in_the_way() -> None:
    nodes = [node("Chat", TRIGGER, 1.1, webhookId="h"), node("App", OPENAI, 1.8, parameters={"resource": "image"})]
    connections = {"Chat": {"main": [[{"node": "App", "type": "main", "index": 0}]]}}
    workflow = parse_workflow({"name": "W", "nodes": nodes, "connections": connections}, source="t", registry=REGISTRY)
    assert [fault.parameter for fault in workflow.faults["App"]] == ["resource"]


def test_a_message_to_gemini() -> None:
    parameters = {
        "modelId": {"__rl": True, "value": "models/gemini-x"},
        "messages": {"values": [{"content": "={{ $json.chatInput }}"}]},
        "options": {"systemMessage": "be brief", "maxOutputTokens": 9},
    }
    outcome, model, made = ask(GEMINI, 1, parameters, ["Hello"])
    assert outcome.error is None, outcome.error
    assert outcome.items[0]["content"] == {"parts": [{"text": "Hello"}], "role": "model"}
    assert model.asked == [[SystemMessage("be brief"), UserMessage("hi")]]
    assert made[0][0] == "gemini-x" and made[0][3].max_tokens == 9
