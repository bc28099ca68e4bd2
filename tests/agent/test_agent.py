"""The agent's loop: what the model is sent, what the client sees, what is remembered and what is on record."""

from __future__ import annotations

from typing import Any

import pytest

from convoq.contract.execution import ExecutionInfo
from convoq.contract.memory import Step, ToolUse, Turn
from convoq.contract.model import (
    AssistantMessage,
    Message,
    ModelSettings,
    SystemMessage,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from convoq.errors import EmptyAnswer, Fenced, MemoryFailed, ModelFailed, ToolFailed
from convoq.memory.local import LocalMemories
from convoq.models.calls import MAX_CALLS
from convoq.models.mock import MockModel
from convoq.nodes.agents.loop import MAX_RESULT_CHARS
from tests.agent.harness import (
    CALCULATOR,
    MEMORY,
    SIMPLE_MEMORY,
    SYSTEM,
    BrokenMemory,
    ScriptedModel,
    ScriptedTool,
    call,
    failing_tool,
    node,
    run_agent,
    tool,
    turns,
)

COMPUTE = call("c1", "Calculator", '{"input": "19 * 23"}')


def test_a_plain_answer() -> None:
    model = ScriptedModel([["Hel", "lo"]])
    bench = run_agent({"Model": model})
    assert model.asked == [[SYSTEM, UserMessage("hi")]]
    assert model.offered == [[]]
    assert model.knobs == [ModelSettings(temperature=0.5)]
    assert bench.output == {"output": "Hello"}
    assert bench.chunks == []


def test_a_tool_call() -> None:
    model = ScriptedModel([["Let me ", "see. ", COMPUTE], ["It is ", "437."]])
    memories = LocalMemories()
    bench = run_agent(
        {"Model": model},
        chat={"chatInput": "What is 19 * 23?", "sessionId": "s"},
        tools=[node("Calculator", CALCULATOR)],
        memory=SIMPLE_MEMORY,
        memories=memories,
        streaming=True,
    )
    question = UserMessage("What is 19 * 23?")
    asks = AssistantMessage("Let me see. ", (ToolCall("c1", "Calculator", '{"input": "19 * 23"}'),))
    assert model.asked == [
        [SYSTEM, question],
        [SYSTEM, question, asks, ToolMessage("437", "c1", "Calculator")],
    ]
    assert [[spec.name for spec in specs] for specs in model.offered] == [["Calculator"]] * 2
    assert bench.lines == [
        *("begin", "item Let me ", "item see. ", "end"),
        *("begin", "item It is ", "item 437.", "end"),
    ]
    assert bench.remembered == [0, 0, 0, 0, 0, 0, 0, 1], "remembered before the last end is seen, and not earlier"
    use = ToolUse("c1", "Calculator", '{"input": "19 * 23"}', "437")
    step = Step("Let me see. ", (use,))
    assert turns(memories) == [Turn("x1:Agent:0:0", "What is 19 * 23?", "It is 437.", (step,), 100.0, 100.0)]
    assert [(run.node, run.connection) for run in bench.runs] == [
        ("Chat", "main"),
        ("Agent", "main"),
        ("Memory", "ai_memory"),
        ("Model", "ai_languageModel"),
        ("Calculator", "ai_tool"),
        ("Model", "ai_languageModel"),
        ("Memory", "ai_memory"),
    ]


def test_run_data_of_models_and_tools() -> None:
    model = ScriptedModel([[COMPUTE], ["437"]])
    bench = run_agent({"Model": model}, tools=[node("Calculator", CALCULATOR)])
    first, second = bench.runs_of("Model")
    assert (first.run_index, second.run_index) == (0, 1)
    assert first.inputs == [
        [
            {
                "messages": [
                    {"role": "system", "content": "You are a helpful assistant"},
                    {"role": "user", "content": "hi"},
                ],
                "tools": ["Calculator"],
            }
        ]
    ]
    usage = {"promptTokens": 3, "completionTokens": 4, "totalTokens": 7}
    asked_for = [{"id": "c1", "name": "Calculator", "arguments": '{"input": "19 * 23"}'}]
    assert first.outputs == [[{"text": "", "toolCalls": asked_for, "finishReason": "stop", "tokenUsage": usage}]]
    assert second.outputs == [[{"text": "437", "toolCalls": [], "finishReason": "stop", "tokenUsage": usage}]]
    (calculated,) = bench.runs_of("Calculator")
    assert calculated.inputs == [[{"input": "19 * 23"}]]
    assert calculated.outputs == [[{"response": "437"}]]


def test_run_data_shows_long_messages_cut() -> None:
    model = ScriptedModel([["ok"]])
    bench = run_agent({"Model": model}, chat={"chatInput": "x" * 50_000})
    assert model.asked[0][1] == UserMessage("x" * 50_000)
    assert bench.runs_of("Model")[0].inputs[0][0]["messages"][1]["content"] == "x" * 2000 + "…"


def test_the_chapter_with_the_mock_model() -> None:
    memories = LocalMemories()

    def say(text: str, execution: str) -> str:
        bench = run_agent(
            {"Model": MockModel()},
            chat={"chatInput": text, "sessionId": "s"},
            tools=[node("Calculator", CALCULATOR)],
            memory=SIMPLE_MEMORY,
            memories=memories,
            execution=execution,
        )
        return str(bench.output["output"])

    assert say("What is 19 * 23?", "x1") == "Based on the tools: Calculator returned 437."
    assert say("my name is Ada", "x2") == "Nice to meet you, Ada."
    assert say("What is my name?", "x3") == "Your name is Ada."


def test_history_stands_between_the_system_message_and_the_question() -> None:
    memories = LocalMemories()
    shared: dict[str, Any] = {"memory": SIMPLE_MEMORY, "memories": memories, "tools": [node("Calculator", CALCULATOR)]}
    run_agent({"Model": ScriptedModel([[COMPUTE], ["437"]])}, execution="x1", **shared)
    model = ScriptedModel([["ok"]])
    run_agent({"Model": model}, chat={"chatInput": "and now?", "sessionId": "s"}, execution="x2", **shared)
    expected: list[Message] = [
        SYSTEM,
        UserMessage("hi"),
        AssistantMessage("", (ToolCall("c1", "Calculator", '{"input": "19 * 23"}'),)),
        ToolMessage("437", "c1", "Calculator"),
        AssistantMessage("437"),
        UserMessage("and now?"),
    ]
    assert model.asked == [expected]
    assert [turn.id for turn in turns(memories)] == ["x1:Agent:0:0", "x2:Agent:0:0"]


def test_the_window_counts_turns_and_never_splits_one() -> None:
    memories = LocalMemories()
    memory = node("Memory", MEMORY, 1.3, parameters={"contextWindowLength": 1})
    shared: dict[str, Any] = {"memory": memory, "memories": memories, "tools": [node("Calculator", CALCULATOR)]}
    for number in range(3):
        run_agent({"Model": ScriptedModel([[COMPUTE], ["437"]])}, execution=f"x{number}", **shared)
    model = ScriptedModel([["ok"]])
    run_agent({"Model": model}, execution="x9", **shared)
    assert [type(message) for message in model.asked[0]] == [
        *(SystemMessage, UserMessage, AssistantMessage, ToolMessage, AssistantMessage, UserMessage)
    ]


def test_two_calls_in_one_reply_stay_one_message() -> None:
    asks = (call("c1", "Calculator", '{"input":"2 + 2"}'), call("c2", "Calculator", '{"input":"3 + 3"}'))
    model = ScriptedModel([asks, ["done"]])
    run_agent({"Model": model}, tools=[node("Calculator", CALCULATOR)])
    assert model.asked[1][2:] == [
        AssistantMessage("", asks),
        ToolMessage("4", "c1", "Calculator"),
        ToolMessage("6", "c2", "Calculator"),
    ]


@pytest.mark.parametrize(
    ("asked", "arguments", "told"),
    [
        (
            call("c1", "nope", '{"input":"1"}'), '{"input":"1"}',
            "Error: there is no tool named 'nope'. Available tools: Search.",
        ),
        (call("c1", "Search", '{"inp'), "{}", "Error: the arguments are not a JSON object: '{\"inp'"),
        (call("c1", "Search", "[1]"), "{}", "Error: the arguments are not a JSON object: '[1]'"),
        (call("c1", "Search", "[" * 5000), "{}", "Error: the arguments are not a JSON object: '[[["),
        (call("c1", "Search", "{}"), "{}", "Error: too hot"),
    ],
    ids=["unknown tool", "broken JSON", "no object", "deep JSON", "failing tool"],
)  # fmt: skip
def test_what_goes_wrong_with_a_tool_is_told_to_the_model(asked: ToolCall, arguments: str, told: str) -> None:
    model = ScriptedModel([[asked], ["I see."]])
    memories = LocalMemories()
    bench = run_agent(
        {"Model": model}, tools={"Search": failing_tool("too hot")}, memory=SIMPLE_MEMORY, memories=memories
    )
    assert bench.output == {"output": "I see."}
    asks, result = model.asked[1][2:]
    assert asks == AssistantMessage("", (ToolCall("c1", asked.name, arguments),))
    assert isinstance(result, ToolMessage) and result.content.startswith(told)
    (use,) = turns(memories)[0].steps[0].calls
    assert use.failed and use.result == result.content


def test_a_failed_call_is_on_record_with_what_the_model_wrote() -> None:
    broken, failing = call("c1", "Search", '{"inp'), call("c2", "Search", '{"q": 1}')
    bench = run_agent({"Model": ScriptedModel([[broken, failing], ["ok"]])}, tools={"Search": failing_tool("too hot")})
    first, second = bench.runs_of("Search")
    assert first.inputs == [[{"arguments": '{"inp'}]]
    assert first.error is not None and "not a JSON object" in first.error["message"]
    assert second.inputs == [[{"q": 1}]]
    assert second.error == {"code": "tool_failed", "message": "too hot"}


def test_a_tool_set_to_stop_the_workflow_stops_it() -> None:
    memories = LocalMemories()
    bench = run_agent(
        {"Model": ScriptedModel([[call("c1", "Search", "{}")], ["ok"]])},
        tools={"Search": failing_tool("too hot")},
        tool_nodes={"onError": "stopWorkflow"},
        memory=SIMPLE_MEMORY,
        memories=memories,
    )
    assert isinstance(bench.outcome.error, ToolFailed)
    assert bench.outcome.error.message == "too hot"
    assert bench.outcome.error.details["node"] == "Search"
    assert turns(memories) == []


def test_an_unsafe_name_is_made_safe_before_it_goes_back() -> None:
    model = ScriptedModel([[call("c1", "no such/tool!", "{}")], ["ok"]])
    run_agent({"Model": model})
    assert model.asked[1][2] == AssistantMessage("", (ToolCall("c1", "no_such_tool_", "{}"),))


def test_tools_have_unique_safe_names() -> None:
    tools = {"A b": tool("1", "A b"), "A/b": tool("2", "A/b"), "long": tool("3", "x" * 90), "Ä": tool("4", "Ä")}
    model = ScriptedModel([[call("c1", "A_b_2", "{}")], ["ok"]])
    run_agent({"Model": model}, tools=tools)
    assert [spec.name for spec in model.offered[0]] == ["A_b", "A_b_2", "x" * 64, "_"]
    assert model.asked[1][3] == ToolMessage("2", "c1", "A_b_2")


def test_tool_results_are_bounded_together() -> None:
    result = "y" * (MAX_RESULT_CHARS - 10)
    model = ScriptedModel([[call("c1", "Search", "{}"), call("c2", "Search", "{}")], ["ok"]])
    run_agent({"Model": model}, tools={"Search": tool(result)})
    one, two = (message.content for message in model.asked[1][3:])
    assert one == result
    left_out = len(result) - 10
    assert two == f"{'y' * 10}\n[cut off: {left_out} of {len(result)} characters are left out]"


def test_a_model_that_asks_for_too_much_at_once() -> None:
    model = ScriptedModel([[call(f"c{number}", "Search", "{}") for number in range(MAX_CALLS + 1)]])
    searches = tool()
    bench = run_agent({"Model": model}, tools={"Search": searches})
    assert isinstance(bench.outcome.error, ModelFailed)
    assert "more than 100 tool calls at once" in bench.outcome.error.message
    assert isinstance(searches, ScriptedTool) and searches.called == []


def test_over_the_limit_of_iterations() -> None:
    model = ScriptedModel([["hm ", COMPUTE]])
    memories = LocalMemories()
    bench = run_agent(
        {"Model": model},
        tools=[node("Calculator", CALCULATOR)],
        memory=SIMPLE_MEMORY,
        memories=memories,
        options={"maxIterations": 2},
    )
    assert bench.outcome.error is not None
    assert bench.outcome.error.code == "too_many_iterations"
    assert "no answer after 2 model calls" in bench.outcome.error.message
    assert len(model.asked) == 2
    assert turns(memories) == []


def test_an_answer_on_the_last_iteration_counts() -> None:
    model = ScriptedModel([[COMPUTE], ["437"]])
    bench = run_agent({"Model": model}, tools=[node("Calculator", CALCULATOR)], options={"maxIterations": 2})
    assert bench.output == {"output": "437"}


def test_a_model_that_fails_leaves_nothing_behind() -> None:
    memories = LocalMemories()
    bench = run_agent(
        {"Model": ScriptedModel([["Hal", ModelFailed("gone")]])},
        memory=SIMPLE_MEMORY,
        memories=memories,
        streaming=True,
    )
    assert isinstance(bench.outcome.error, ModelFailed)
    assert bench.lines == ["begin", "item Hal"], "the end comes after the error"
    assert turns(memories) == []
    assert bench.runs_of("Model")[0].error == {"code": "model_failed", "message": "gone"}


def test_an_empty_answer_is_asked_for_again() -> None:
    memories = LocalMemories()
    model = ScriptedModel([["  "], ["Hello"]])
    bench = run_agent({"Model": model}, memory=SIMPLE_MEMORY, memories=memories, streaming=True)
    assert bench.output == {"output": "Hello"}
    assert bench.lines == ["begin", "item Hello", "end"]
    assert model.asked[0] == model.asked[1]
    assert [run.error and run.error["code"] for run in bench.runs_of("Model")] == ["empty_answer", None]
    assert [turn.answer for turn in turns(memories)] == ["Hello"]


def test_a_model_that_answers_nothing_is_an_error() -> None:
    memories = LocalMemories()
    model = ScriptedModel([[]])
    bench = run_agent({"Model": model}, memory=SIMPLE_MEMORY, memories=memories, streaming=True)
    assert isinstance(bench.outcome.error, EmptyAnswer)
    assert "model 'scripted' answered nothing: neither a text nor a tool call" in bench.outcome.error.message
    assert bench.chunks == []
    assert len(model.asked) == 2
    assert turns(memories) == []


def test_a_call_without_text_sends_neither_begin_nor_end() -> None:
    bench = run_agent(
        {"Model": ScriptedModel([[COMPUTE], ["437"]])}, tools=[node("Calculator", CALCULATOR)], streaming=True
    )
    assert bench.lines == ["begin", "item 437", "end"]


def test_streaming_can_be_turned_off() -> None:
    bench = run_agent({"Model": ScriptedModel([["Hello"]])}, streaming=True, options={"enableStreaming": False})
    assert bench.chunks == []
    assert bench.output == {"output": "Hello"}


def test_the_second_model_answers_where_the_first_fails() -> None:
    first, second = ScriptedModel([[ModelFailed("down")]]), ScriptedModel([["Hello"]])
    bench = run_agent({"First": first, "Second": second}, needsFallback=True, streaming=True)
    assert bench.output == {"output": "Hello"}
    assert bench.lines == ["begin", "item Hello", "end"]
    assert bench.runs_of("First")[0].error == {"code": "model_failed", "message": "down"}
    assert bench.runs_of("Second")[0].error is None


@pytest.mark.parametrize(
    ("first", "fallback", "message"),
    [
        (["Hal", ModelFailed("down")], True, "down"),
        ([ModelFailed("down")], False, "down"),
    ],
    ids=["after text", "not asked for"],
)
def test_no_fallback(first: list[Any], fallback: bool, message: str) -> None:
    second = ScriptedModel([["Hello"]])
    bench = run_agent({"First": ScriptedModel([first]), "Second": second}, needsFallback=fallback)
    assert bench.outcome.error is not None and bench.outcome.error.message == message
    assert second.asked == []


def test_both_models_fail() -> None:
    models = {"First": ScriptedModel([[ModelFailed("down")]]), "Second": ScriptedModel([[ModelFailed("down, too")]])}
    bench = run_agent(models, needsFallback=True)
    assert bench.outcome.error is not None and bench.outcome.error.message == "down, too"
    assert bench.outcome.error.details["node"] == "Second"


def test_a_fallback_that_is_not_connected() -> None:
    bench = run_agent({"Model": ScriptedModel([["ok"]])}, needsFallback=True)
    assert bench.outcome.error is not None and "needsFallback" in bench.outcome.error.message


@pytest.mark.parametrize(
    ("at", "error"),
    [("load", MemoryFailed("no answer")), ("append", MemoryFailed("no answer"))],
)
def test_a_memory_that_fails_is_an_error(at: str, error: Exception) -> None:
    memories = LocalMemories()

    def broken(execution: ExecutionInfo, session: str, node: str, *, window: int, ttl_s: int) -> Any:
        return BrokenMemory(memories(execution, session, node, window=window, ttl_s=ttl_s), error, at)

    bench = run_agent({"Model": ScriptedModel([["Hello"]])}, memory=SIMPLE_MEMORY, memories=broken, streaming=True)
    assert bench.outcome.error is error
    assert bench.lines == ([] if at == "load" else ["begin", "item Hello"])


def test_a_fenced_turn_ends_the_run() -> None:
    def broken(execution: ExecutionInfo, session: str, node: str, *, window: int, ttl_s: int) -> Any:
        memory = LocalMemories()(execution, session, node, window=window, ttl_s=ttl_s)
        return BrokenMemory(memory, Fenced("taken over"), "append")

    with pytest.raises(Fenced):
        run_agent({"Model": ScriptedModel([["Hello"]])}, memory=SIMPLE_MEMORY, memories=broken)
