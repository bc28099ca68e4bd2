"""How models are asked: again, another one, and what the client sees of it meanwhile."""

from __future__ import annotations

from typing import Any

import pytest

from convoq.contract.model import AssistantMessage, Finish, ReasoningDelta, ToolCall
from convoq.errors import EmptyAnswer, ModelFailed
from convoq.memory.local import LocalMemories
from convoq.settings import Settings
from tests.agent.harness import SIMPLE_MEMORY, ScriptedModel, call, run_agent, tool, turns

HM = ReasoningDelta("Hm.")
DOWN = ModelFailed("down")


@pytest.mark.parametrize("retries", [0, 1, 3])
def test_how_often_a_model_that_answers_nothing_is_asked(retries: int) -> None:
    model = ScriptedModel([[]])
    bench = run_agent({"Model": model}, settings=Settings(model_empty_retries=retries))
    assert isinstance(bench.outcome.error, EmptyAnswer)
    assert len(model.asked) == len(bench.runs_of("Model")) == retries + 1


def test_nothing_then_the_other_model() -> None:
    first, second = ScriptedModel([[]]), ScriptedModel([["Hello"]])
    bench = run_agent({"First": first, "Second": second}, needsFallback=True, streaming=True)
    assert bench.output == {"output": "Hello"}
    assert bench.lines == ["begin", "item Hello", "end"]
    assert (len(first.asked), len(second.asked)) == (2, 1)


@pytest.mark.parametrize("wanted", [True, False])
@pytest.mark.parametrize("first", [[HM, DOWN], [HM, "<think>Well.", DOWN], [HM, Finish("length")]])
def test_thoughts_are_not_an_answer(first: list[Any], wanted: bool) -> None:
    """A model that failed while it only thought is replaced; its thoughts have an end of their own."""
    models = {"First": ScriptedModel([first]), "Second": ScriptedModel([[HM, "Hello"]])}
    bench = run_agent(models, needsFallback=True, streaming=True, reasoning=wanted)
    assert bench.output == {"output": "Hello"}
    lines = [line for line in bench.lines if line != "reasoning Well."]
    if wanted:
        assert lines == ["begin", "reasoning Hm.", "end", "begin", "reasoning Hm.", "item Hello", "end"]
    else:
        assert lines == ["begin", "item Hello", "end"]


def test_thoughts_reach_neither_the_memory_nor_the_next_turn() -> None:
    memories = LocalMemories()
    model = ScriptedModel([[HM, "<think>Well.</think>", call("c1", "Search", "{}")], [HM, "Hello"], ["Bye"]])
    for number in range(2):
        run_agent(
            {"Model": model}, tools={"Search": tool()}, memory=SIMPLE_MEMORY, memories=memories, execution=f"x{number}"
        )
    (first, _) = turns(memories)
    assert (first.answer, first.steps[0].text) == ("Hello", "")
    assert [m.reasoning for m in model.asked[1] if isinstance(m, AssistantMessage)] == ["Hm.Well."], "within the turn"
    assert [m.reasoning for m in model.asked[2] if isinstance(m, AssistantMessage)] == ["", ""], "not in the next"


def test_usage_counts_thoughts() -> None:
    told = ScriptedModel([[HM, "Hello", Finish("stop", 10, 20, 15)]])
    (run,) = run_agent({"Model": told}).runs_of("Model")
    assert run.tokens is not None and run.tokens.reasoning == 15
    assert run.outputs[0][0]["tokenUsage"]["reasoningTokens"] == 15
    estimated = ScriptedModel([[ReasoningDelta("x" * 30), "y" * 10, Finish("stop", 10, 20)]])
    (run,) = run_agent({"Model": estimated}).runs_of("Model")
    assert run.tokens is not None and run.tokens.reasoning == 15
    none = ScriptedModel([["Hello", Finish("stop", 10, 20)]])
    (run,) = run_agent({"Model": none}).runs_of("Model")
    assert run.tokens is not None and run.tokens.reasoning == 0


def test_one_reply_gathers_thoughts_for_who_wants_them() -> None:
    model = ScriptedModel([[HM, call("c1", "Search", "{}")], [HM, "Hello"]])
    assert run_agent({"Model": model}, tools={"Search": tool()}, reasoning=True).thoughts == ["Hm.", "Hm."]
    assert run_agent({"Model": ScriptedModel([[HM, "Hello"]])}).thoughts == []


def test_streaming_that_is_turned_off_has_no_thoughts_either() -> None:
    model = ScriptedModel([[HM, "Hello"]])
    bench = run_agent({"Model": model}, streaming=True, reasoning=True, options={"enableStreaming": False})
    assert bench.chunks == []


@pytest.mark.parametrize(
    ("arguments", "given"),
    [
        ('"{\\"a\\": 1}"', {"a": 1}),
        ('" {\\"a\\": 1}"', {"a": 1}),
        ('"{}"', {}),
        ('"hello"', None),
        ('"{oops"', None),
        ('"\\"{}\\""', None),
    ],
)
def test_arguments_within_a_text(arguments: str, given: dict[str, Any] | None) -> None:
    search = tool()
    model = ScriptedModel([[ToolCall("c1", "Search", arguments)], ["ok"]])
    run_agent({"Model": model}, tools={"Search": search})
    assert search.called == ([] if given is None else [given])  # type: ignore[attr-defined]
    (asked,) = [message for message in model.asked[1] if isinstance(message, AssistantMessage)]
    assert asked.tool_calls[0].arguments.lstrip().startswith("{"), "a provider takes nothing but an object"
