"""What an agent is asked, and what it makes of its items."""

from __future__ import annotations

from typing import Any

import pytest

from convoq.contract.model import AssistantMessage, Message, SystemMessage, UserMessage
from convoq.errors import ModelFailed, NodeFailed
from convoq.memory.local import LocalMemories
from tests.agent.harness import CALCULATOR, SIMPLE_MEMORY, SYSTEM, ScriptedModel, call, node, run_agent, turns


@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        ({}, [SYSTEM, UserMessage("hi")]),
        ({"options": {"systemMessage": "Be brief"}}, [SystemMessage("Be brief"), UserMessage("hi")]),
        ({"options": {"systemMessage": "=For {{ $json.sessionId }}."}}, [SystemMessage("For s."), UserMessage("hi")]),
        ({"options": {"systemMessage": ""}}, [UserMessage("hi")]),
        ({"promptType": "auto", "text": "not this"}, [SYSTEM, UserMessage("hi")]),
        ({"promptType": "guardrails"}, [SYSTEM, UserMessage("hi")]),
        ({"promptType": "define", "text": "=Q: {{ $json.chatInput }}"}, [SYSTEM, UserMessage("Q: hi")]),
        ({"promptType": "define", "text": "={{ 42 }}"}, [SYSTEM, UserMessage("42")]),
        ({"text": "old {y} style"}, [SYSTEM, UserMessage("old {y} style")]),
        ({"agent": "conversationalAgent", "options": {"humanMessage": "x"}}, [SYSTEM, UserMessage("hi")]),
    ],
)  # fmt: skip
def test_prompts(parameters: dict[str, Any], expected: list[Message]) -> None:
    model = ScriptedModel([["ok"]])
    bench = run_agent({"Model": model}, **parameters)
    assert bench.output == {"output": "ok"}
    assert model.asked == [expected]


@pytest.mark.parametrize(
    ("chat", "parameters", "said"),
    [
        ({}, {}, "no prompt: the input has no 'chatInput'"),
        ({"chatInput": "  "}, {}, "no prompt: the input has no 'chatInput'"),
        ({"chatInput": {"a": 1}}, {}, "the prompt must be a text, not an object"),
        ({"chatInput": "hi"}, {"promptType": "define"}, "no prompt: parameter 'text'"),
        ({"chatInput": "hi"}, {"promptType": "define", "text": ""}, "no prompt: parameter 'text'"),
        ({"chatInput": "hi"}, {"promptType": "define", "text": "={{ $json.nope }}"}, "no prompt: parameter 'text'"),
        ({"chatInput": "hi"}, {"agent": "sqlAgent"}, "the SQL agent is not supported"),
    ],
)  # fmt: skip
def test_what_cannot_be_answered(chat: dict[str, Any], parameters: dict[str, Any], said: str) -> None:
    model = ScriptedModel([["ok"]])
    bench = run_agent({"Model": model}, chat=chat, **parameters)
    assert isinstance(bench.outcome.error, NodeFailed)
    assert said in bench.outcome.error.message
    assert bench.outcome.error.details["node"] == "Agent"
    assert model.asked == []


def test_intermediate_steps() -> None:
    asks = (call("c1", "Calculator", '{"input":"1 + 1"}'), call("c2", "nope", "{"))
    bench = run_agent(
        {"Model": ScriptedModel([["Hm. ", *asks], ["2"]])},
        tools=[node("Calculator", CALCULATOR)],
        options={"returnIntermediateSteps": True},
    )
    first, second = bench.output["intermediateSteps"]
    assert first == {
        "action": {
            "tool": "Calculator",
            "toolInput": {"input": "1 + 1"},
            "toolCallId": "c1",
            "log": 'Hm. \nCalling Calculator with {"input":"1 + 1"}',
        },
        "observation": "2",
    }
    assert second["action"]["toolInput"] == {}
    assert second["observation"].startswith("Error: there is no tool named 'nope'")


def test_no_intermediate_steps() -> None:
    bench = run_agent({"Model": ScriptedModel([["2"]])}, options={"returnIntermediateSteps": True})
    assert bench.output == {"output": "2", "intermediateSteps": []}


def test_items_are_answered_one_after_the_other() -> None:
    model = ScriptedModel([["one"], ["two"]])
    memories = LocalMemories()
    bench = run_agent(
        {"Model": model},
        chat=[{"chatInput": "a", "sessionId": "s"}, {"chatInput": "b", "sessionId": "s"}],
        memory=SIMPLE_MEMORY,
        memories=memories,
        streaming=True,
    )
    assert bench.outcome.items == [{"output": "one"}, {"output": "two"}]
    assert model.asked[1] == [SYSTEM, UserMessage("a"), AssistantMessage("one"), UserMessage("b")]
    assert bench.lines == ["begin", "item one", "end", "begin", "item two", "end"]
    assert [chunk.metadata.item_index for chunk in bench.chunks] == [0, 0, 0, 1, 1, 1]
    assert {chunk.metadata.node_name for chunk in bench.chunks} == {"Agent"}
    assert [turn.id for turn in turns(memories)] == ["x1:Agent:0:0", "x1:Agent:0:1"]


def test_one_bad_item_does_not_spoil_the_others() -> None:
    bench = run_agent(
        {"Model": ScriptedModel([["one"], ["three"]])},
        chat=[{"chatInput": "a"}, {}, {"chatInput": "c"}],
        agent_node={"onError": "continueRegularOutput"},
    )
    good, bad, last = bench.outcome.items
    assert (good, last) == ({"output": "one"}, {"output": "three"})
    assert "no prompt" in bad["error"]


def test_a_second_try_remembers_each_turn_once() -> None:
    memories = LocalMemories()
    model = ScriptedModel([["one"], [ModelFailed("down")], ["one, again"], ["two"]])
    bench = run_agent(
        {"Model": model},
        chat=[{"chatInput": "a", "sessionId": "s"}, {"chatInput": "b", "sessionId": "s"}],
        memory=SIMPLE_MEMORY,
        memories=memories,
        agent_node={"retryOnFail": True, "maxTries": 2, "waitBetweenTries": 0},
    )
    assert bench.outcome.error is None
    assert [(turn.user, turn.answer) for turn in turns(memories)] == [("a", "one"), ("b", "two")]
