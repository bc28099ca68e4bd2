"""Tools as an agent uses them: their schemas, what they are given, what the model is told."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from convoq.contract.context import RunContext
from convoq.contract.execution import ExecutionInfo
from convoq.contract.from_ai import placeholders_in, schema_of
from convoq.contract.items import Item, Outputs
from convoq.contract.model import ToolCall, ToolSpec
from convoq.contract.node import AnyNode, MainNode
from convoq.contract.node_tool import NodeTool
from convoq.contract.parameters import Parameters
from convoq.contract.services import Services
from convoq.engine.outcome import Outcome
from convoq.engine.reading import parse_workflow
from convoq.engine.run import WorkflowRun
from convoq.engine.workflow import Workflow
from convoq.errors import NodeFailed
from convoq.memory.local import LocalMemories
from convoq.nodes.registry import REGISTRY
from convoq.nodes.tools.schema import schema_of_example
from convoq.settings import Settings
from tests.agent.harness import AGENT, TRIGGER, ScriptedModel, Supplies, no_http, node

LANGCHAIN = "@n8n/n8n-nodes-langchain"


class Echo(MainNode[Parameters]):
    """Gives its parameters back, an item each."""

    type, versions, title = "test.echo", (1, 1), "Echo"

    async def run(self, ctx: RunContext[Any]) -> Outputs:
        raw = {key: value for key, value in ctx.node.parameters.items() if key.startswith("x")}
        return [[Item(await ctx.evaluate(raw, index)) for index in range(len(ctx.items))]]


class CalledTrigger(MainNode[Parameters]):
    type, versions, is_trigger, called_by_workflows = "test.called", (1, 1), True, True

    async def run(self, ctx: RunContext[Any]) -> Outputs:
        return [list(ctx.items)]


class Slow(MainNode[Parameters]):
    """Ends only once two of its kind run."""

    type, versions = "test.slow", (1, 1)

    def __init__(self) -> None:
        self._met = asyncio.Barrier(2)

    async def run(self, ctx: RunContext[Any]) -> Outputs:
        async with asyncio.timeout(10):
            await self._met.wait()
        return [[Item({"met": True})]]


def call(name: str, arguments: object, id: str = "c1") -> ToolCall:
    return ToolCall(id, name, json.dumps(arguments))


def chat(
    tools: Sequence[dict[str, Any]], replies: Sequence[Any], *more: dict[str, Any]
) -> tuple[Outcome, ScriptedModel, WorkflowRun]:
    """An agent with these tools, whose model replies as given."""
    model = ScriptedModel(list(replies))
    types: list[AnyNode] = [Echo(), CalledTrigger(), Slow()]
    registry = {name: REGISTRY[name] for name in REGISTRY}
    registry |= {one.type: one for one in types} | {"test.model": Supplies({"Model": model})}
    nodes = [
        node("Chat", TRIGGER, 1.1, webhookId="h"),
        node("Agent", AGENT, 3),
        node("Model", "test.model"),
        *tools,
        *more,
    ]
    connections: dict[str, Any] = {
        "Chat": {"main": [[{"node": "Agent", "type": "main", "index": 0}]]},
        "Model": {"ai_languageModel": [[{"node": "Agent", "type": "ai_languageModel", "index": 0}]]},
    }
    for tool in tools:
        connections[tool["name"]] = {"ai_tool": [[{"node": "Agent", "type": "ai_tool", "index": 0}]]}
    data = {"id": "wf", "name": "W", "nodes": nodes, "connections": connections}
    parsed = parse_workflow(data, source="t", registry=registry)

    async def find(workflow: str | Mapping[str, Any]) -> Workflow | None:
        if isinstance(workflow, str):
            return parsed if workflow == "wf" else None
        return parse_workflow(workflow, source="called", registry=registry)

    async def main() -> tuple[Outcome, ScriptedModel, WorkflowRun]:
        services = Services(Settings(), LocalMemories(), no_http, workflow=find)
        run = WorkflowRun(parsed, ExecutionInfo("x", 1, "wf", "W", "s", "production", 0.0), services)
        outcome = await run.start("Chat", [Item({"chatInput": "hi"})])
        return outcome, model, run

    return asyncio.run(main())


def told(model: ScriptedModel) -> list[str]:
    """What the model was told by tools in its last call."""
    return [message.content for message in model.asked[-1] if type(message).__name__ == "ToolMessage"]


def called(**rest: Any) -> dict[str, Any]:
    """A workflow that gives what it is called with."""
    return {"id": "other", "name": "Other", "nodes": [node("When called", "test.called")], "connections": {}, **rest}


@pytest.mark.parametrize(
    "text, key, description, kind, default",
    [
        ("={{ $fromAI('city') }}", "city", "", "string", None),
        ('={{ $fromAI("n", `how "many"`, "number") }}', "n", 'how "many"', "number", None),
        ("={{ $fromAi('a', '', 'boolean', false) }}", "a", "", "boolean", False),
        ("={{ 'x' + $fromAI('a-b', \"it\\'s, (so)\", 'json', {\"k\": 1}) }}", "a-b", "it's, (so)", "json", {"k": 1}),
        ("={{ /*n8n-auto-generated-fromAI-override*/ $fromAI('To', ``, 'string') }}", "To", "", "string", None),
    ],
)
def test_what_from_ai_asks_for(text: str, key: str, description: str, kind: str, default: Any) -> None:
    (found,) = placeholders_in({"deep": [{"er": text}]})
    assert (found.key, found.description, found.type) == (key, description, kind)
    assert found.required is (default is None) and (found.required or found.default == default)


def test_the_schema_of_what_is_asked_for() -> None:
    found = placeholders_in({"a": "={{ $fromAI('n', 'many', 'number') }}", "b": "={{ $fromAI('s','','string','d') }}"})
    assert schema_of(found) == {
        "type": "object",
        "properties": {"n": {"type": "number", "description": "many"}, "s": {"type": "string", "default": "d"}},
        "required": ["n"],
        "additionalProperties": False,
    }


@pytest.mark.parametrize(
    "text",
    [
        "={{ $fromAI('a b') }}",
        "={{ $fromAI() }}",
        "={{ $fromAI('a','','date') }}",
        "={{ $fromAI('a') + $fromAI('a','d') }}",
    ],
)
def test_what_cannot_be_asked_for(text: str) -> None:
    with pytest.raises(NodeFailed, match=r"\$fromAI"):
        placeholders_in({"x": text})


def test_text_that_is_no_expression_asks_for_nothing() -> None:
    assert placeholders_in({"x": "write $fromAI('a') here"}) == []


def test_any_node_is_a_tool() -> None:
    assert isinstance(REGISTRY["n8n-nodes-base.setTool"], NodeTool)
    assert "n8n-nodes-base.nowhereTool" not in REGISTRY and "Tool" not in REGISTRY
    assert f"{LANGCHAIN}.chatTriggerTool" not in REGISTRY and f"{LANGCHAIN}.toolThinkTool" not in REGISTRY


def test_a_node_as_a_tool_is_told_of_and_called() -> None:
    tool = node("My Echo!", "test.echo", parameters={"toolDescription": "says it again", "xPlain": "fixed"})
    outcome, model, run = chat([tool], [[call("My_Echo_", {})], ["done"]])
    assert outcome.error is None
    assert model.offered[0][0] == ToolSpec(
        "My_Echo_",
        "says it again",
        {"type": "object", "properties": {}, "required": [], "additionalProperties": False},
    )
    assert told(model) == ['[{"xPlain": "fixed"}]']
    assert next(record for record in run.run_data if record.node == "My Echo!").connection == "ai_tool"


def test_a_missing_argument_is_told_to_the_model() -> None:
    tool = node("E", "test.echo", parameters={"xA": "={{ $fromAI('a') }}"})
    outcome, model, _ = chat([tool], [[call("E", {"b": 1})], ["done"]])
    assert outcome.error is None and told(model) == ["Error: argument 'a' is missing"]


def test_the_calls_of_one_reply_run_side_by_side() -> None:
    tools = [node("One", "test.slow"), node("Two", "test.slow")]
    outcome, model, _ = chat(tools, [[call("One", {}, "1"), call("Two", {}, "2")], ["done"]])
    assert outcome.error is None and told(model) == ['[{"met": true}]'] * 2


def test_think() -> None:
    outcome, model, _ = chat([node("Think", f"{LANGCHAIN}.toolThink", 1.1)], [[call("Think", {"input": "hm"})], ["ok"]])
    assert outcome.error is None and told(model) == ["hm"]


def test_a_workflow_as_a_tool() -> None:
    parameters = {"description": "calls", "source": "parameter", "workflowJson": json.dumps(called()), "name": "sub"}
    tool = node("Call", f"{LANGCHAIN}.toolWorkflow", 2.1, parameters=parameters)
    outcome, model, _ = chat([tool], [[call("sub", {"query": "q"})], ["done"]])
    assert outcome.error is None, outcome.error
    assert model.offered[0][0].description == "calls" and told(model) == ['[{"query": "q"}]']


def test_an_old_workflow_tool_gives_one_field() -> None:
    parameters = {"name": "old", "source": "parameter", "workflowJson": called(), "responsePropertyName": "query"}
    tool = node("Call", f"{LANGCHAIN}.toolWorkflow", 1.2, parameters=parameters)
    outcome, model, _ = chat([tool], [[call("old", {"query": "q"})], ["done"]])
    assert outcome.error is None and told(model) == ["q"]


def test_a_workflow_that_calls_itself() -> None:
    parameters = {"workflowId": {"__rl": True, "mode": "id", "value": "={{ $workflow.id }}"}, "name": "me"}
    tool = node("Me", f"{LANGCHAIN}.toolWorkflow", 2, parameters=parameters)
    outcome, model, _ = chat([tool], [[call("me", {"query": "q"})], ["done"]], node("When called", "test.called"))
    assert outcome.error is None and told(model) == ['[{"query": "q"}]']


def test_a_workflow_that_is_not_there() -> None:
    tool = node("Call", f"{LANGCHAIN}.toolWorkflow", 2.2, parameters={"workflowId": "nowhere"})
    outcome, model, _ = chat([tool], [[call("Call", {"query": "q"})], ["done"]])
    assert outcome.error is None and "there is no workflow 'nowhere'" in told(model)[0]


def test_schemas_of_examples() -> None:
    assert schema_of_example({"a": [1], "b": {"c": None, "d": True}, "e": []}) == {
        "type": "object",
        "properties": {
            "a": {"type": "array", "items": {"type": "number"}},
            "b": {
                "type": "object",
                "properties": {"c": {"type": "null"}, "d": {"type": "boolean"}},
                "required": ["c", "d"],
            },
            "e": {"type": "array", "items": {}},
        },
        "required": ["a", "b", "e"],
    }
