"""The window over messages: what is sent, what is stored, and its ports."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from convoq.contract.execution import ExecutionInfo
from convoq.contract.memory import Step, ToolUse, Turn
from convoq.errors import InvalidWorkflow, MemoryFailed
from convoq.memory.local import LocalMemories
from convoq.memory.window import FittedMemory, fit, messages_in
from tests.agent.harness import BrokenMemory, node
from tests.memory_nodes.lab import Lab, answers, link, redis_parts, running, search

WINDOW = "convoq.windowMemory"


def window(**parameters: Any) -> dict[str, Any]:
    return node("Mem", WINDOW, parameters=parameters)


def talk(lab: Lab, *texts: str, session: str = "s") -> None:
    async def main() -> None:
        for text in texts:
            said = await lab.say(text, session=session)
            assert said.outcome.error is None, said.outcome.error

    asyncio.run(main())


def test_ten_messages_are_five_exchanges() -> None:
    lab = Lab([window()], model=answers(8))
    talk(lab, *(f"question {n}" for n in range(1, 9)))
    sent = lab.sent()
    assert sent[0] == ("user", "question 3") and sent[-1] == ("user", "question 8")
    assert len(sent) == 10 + 1
    assert [turn.user for turn in asyncio.run(lab.stored())] == [f"question {n}" for n in range(4, 9)]


def test_tool_calls_and_results_count() -> None:
    """A turn with one tool call is four messages: of a window of 5 nothing is left for the turn before."""
    lab = Lab([window(window_size=5)], model=answers(1))
    lab.model.replies = [["answer 1"], search("c1"), ["answer 2"], ["answer 3"]]
    talk(lab, "question 1", "question 2", "question 3")
    assert lab.sent() == [
        *[("user", "question 2"), ("assistant", ""), ("tool", "found it"), ("assistant", "answer 2")],
        ("user", "question 3"),
    ]
    assert [turn.user for turn in asyncio.run(lab.stored())] == ["question 3"], "4 + 2 are more than 5"


def test_of_a_turn_larger_than_the_window_the_last_rounds_stay() -> None:
    lab = Lab([window(window_size=4)])
    lab.model.replies = [search("c1", "one"), search("c2", "two"), ["answer"], ["next"]]
    talk(lab, "question", "and now?")
    assert lab.sent() == [
        *[("user", "question"), ("assistant", "two"), ("tool", "found it"), ("assistant", "answer")],
        ("user", "and now?"),
    ]


def test_a_window_of_one_message_remembers_nothing() -> None:
    lab = Lab([window(window_size=1)], model=answers(3))
    talk(lab, "question 1", "question 2")
    assert lab.sent() == [("user", "question 2")]
    assert asyncio.run(lab.stored()) == []


@pytest.mark.parametrize("size", [0, 201, -1])
def test_a_window_is_1_to_200(size: int) -> None:
    with pytest.raises(InvalidWorkflow, match="'window_size'"):
        Lab([window(window_size=size)])


TURNS = st.lists(
    st.builds(lambda rounds, cut_off: (rounds, cut_off), st.lists(st.integers(1, 3), max_size=4), st.booleans()),
    max_size=12,
)


def made(shape: list[tuple[list[int], bool]]) -> list[Turn]:
    turns = []
    for number, (rounds, cut_off) in enumerate(shape):
        steps = tuple(
            Step("", tuple(ToolUse(f"{number}-{r}-{c}", "Search", "{}", "r") for c in range(calls)))
            for r, calls in enumerate(rounds)
        )
        turns.append(Turn(f"x{number}", f"q{number}", "" if cut_off else "a", steps, cut_off=cut_off))
    return turns


@settings(deadline=None)
@given(TURNS, st.integers(1, 30))
def test_never_more_than_the_window_and_no_turn_is_torn(shape: list[tuple[list[int], bool]], size: int) -> None:
    """Whatever was said: the kept are the last turns, all but a shortened newest as they were, and one more would be
    too much."""
    memories = LocalMemories(lambda: 0.0)
    info = ExecutionInfo("x", 1, "wf", "W", "s", "production", 0.0)
    memory = FittedMemory(
        lambda turns: memories(info, "s", "Mem", window=turns, ttl_s=9), size, size, messages_in, "messages"
    )
    turns = made(shape)

    async def main() -> None:
        before: list[Turn] = []
        for turn in turns:
            await memory.append(turn)
            await memory.append(turn)  # a retried execution
            kept = list(await memory.load())
            assert kept == memories.read(("wf", "s", "Mem")) == fit([*before, turn], size, messages_in)
            assert sum(map(messages_in, kept)) <= size
            if kept:
                left_out = len(before) + 1 - len(kept)
                assert kept[:-1] == before[left_out:]
                assert kept[-1].id == turn.id and turn.steps[len(turn.steps) - len(kept[-1].steps) :] == kept[-1].steps
                assert not left_out or sum(map(messages_in, [before[left_out - 1], *kept])) > size
            before = kept

    asyncio.run(main())


def test_thread_outlives_executions_session_and_call_do_not() -> None:
    for scope, remembers in (("thread", True), ("session", False), ("call", False)):
        lab = Lab([window(scope=scope)], model=answers(2))
        talk(lab, "question 1", "question 2")
        assert (len(lab.sent()) > 1) is remembers, scope


def test_without_a_thread_the_history_is_the_executions() -> None:
    lab = Lab([window()], model=answers(3))
    talk(lab, "question 1", "question 2", session="")
    assert lab.sent() == [("user", "question 2")]


def test_session_scope_is_shared_within_one_execution() -> None:
    """Two agents, one after the other, over one node."""
    from tests.agent.harness import AGENT

    for scope, remembers in (("session", True), ("call", False)):
        lab = Lab(
            [window(scope=scope), node("Second", AGENT, 3.1, parameters={"promptType": "define", "text": "and?"})],
            links=[
                *[link("Mem", "Agent", "ai_memory"), link("Mem", "Second", "ai_memory")],
                *[link("Agent", "Second"), link("Model", "Second", "ai_languageModel")],
            ],
            model=answers(2),
        )
        talk(lab, "question 1")
        history = [("user", "question 1"), ("assistant", "answer 1")] if remembers else []
        assert lab.sent() == [*history, ("user", "and?")], scope


def test_link_memory_is_another_name_of_the_connection() -> None:
    lab = Lab([window()], links=[link("Mem", "Agent", "link_memory")], model=answers(2))
    talk(lab, "question 1", "question 2")
    assert len(lab.sent()) == 3


def test_the_short_type_name_is_understood() -> None:
    lab = Lab([node("Mem", "window_memory")], model=answers(2))
    talk(lab, "question 1", "question 2")
    assert len(lab.sent()) == 3


# --- its ports -------------------------------------------------------------------------------------------------------


def ported(**parameters: Any) -> Lab:
    """The node's three outputs lead to a window each, whose runs show what arrived."""
    sinks = [node(name, "n8n-nodes-base.set", 3.4) for name in ("Success", "Messages", "Failed")]
    return Lab(
        [window(**parameters), *sinks],
        links=[
            link("Mem", "Agent", "ai_memory"),
            *(link("Mem", name, output=output) for output, name in enumerate(("Messages", "Success", "Failed"))),
        ],
        model=answers(3),
    )


def test_messages_out_hands_the_stored_messages_to_the_next_step() -> None:
    async def main() -> None:
        lab = ported(expose_messages_output=True)
        await lab.say("question 1")
        said = await lab.say("question 2")
        assert said.outcome.reply == {"output": "answer 2"}, "the answer is still the agent's"
        arrived = said.of("Messages")[0].inputs[0]
        assert [(message["role"], message["content"]) for message in arrived] == [
            *[("user", "question 1"), ("assistant", "answer 1"), ("user", "question 2"), ("assistant", "answer 2")]
        ]
        assert not said.of("Success") and not said.of("Failed")

    asyncio.run(main())


def test_what_comes_after_the_agent_can_refer_to_the_messages() -> None:
    assignment = {"id": "a", "name": "told", "type": "string", "value": "={{ $('Mem').first().json.content }}"}
    after = node("After", "n8n-nodes-base.set", 3.4, parameters={"assignments": {"assignments": [assignment]}})
    lab = Lab(
        [window(expose_messages_output=True), after, node("Messages", "n8n-nodes-base.set", 3.4)],
        links=[link("Mem", "Agent", "ai_memory"), link("Mem", "Messages"), link("Agent", "After")],
    )
    said = asyncio.run(lab.say("question 1"))
    assert said.items("After") == [{"told": "question 1"}]
    main = [run.node for run in said.runs if run.connection == "main"]
    assert main == ["Chat", "Agent", "Mem", "Messages", "After"]


def test_an_output_that_is_not_exposed_gives_nothing() -> None:
    said = asyncio.run(ported().say("question"))
    assert not said.of("Messages") and not said.of("Success") and not said.of("Failed")


def overwriting(*, on: bool = True, messages: Any = None, **parameters: Any) -> Lab:
    """Chat -> Mem (messages_in) -> Success; the agent does not run before."""
    given = messages if messages is not None else [{"role": "user", "content": "old"}, {"role": "ai", "content": "new"}]
    assignment = {"id": "a", "name": "messages", "type": "array", "value": given}
    sinks = [node(name, "n8n-nodes-base.set", 3.4) for name in ("Success", "Failed")]
    return Lab(
        [
            window(overwrite_from_input=on, **parameters),
            node("Give", "n8n-nodes-base.set", 3.4, parameters={"assignments": {"assignments": [assignment]}}),
            *sinks,
        ],
        links=[
            link("Mem", "Agent", "ai_memory"),
            *[link("Chat", "Give"), link("Give", "Mem")],
            *[link("Mem", "Success", output=1), link("Mem", "Failed", output=2)],
        ],
        model=answers(5),
    )


def test_messages_in_replace_the_stored_history() -> None:
    async def main() -> None:
        lab = overwriting()
        said = await lab.say("question 1")
        assert (await lab.stored())[0].user == "old"
        assert said.of("Success")[0].inputs[0][0]["messages"], "the success output fires, with what came in"
        assert said.outcome.error is None
        await lab.say("question 2")
        stored = await lab.stored()
        assert stored[0].user == "old" and stored[0].answer == "new"
        assert sum(turn.user == "old" for turn in stored) == 1

    asyncio.run(main())


def test_items_on_an_input_that_is_off_are_a_failure() -> None:
    said = asyncio.run(overwriting(on=False).say("question"))
    assert said.outcome.error is not None and "'overwrite_from_input' is off" in said.outcome.error.message


def test_what_is_no_message_is_named() -> None:
    said = asyncio.run(
        overwriting(messages=[{"role": "user", "content": "a"}, {"role": "judge", "content": "b"}]).say("q")
    )
    assert said.outcome.error is not None and "message 1: role 'judge'" in said.outcome.error.message


def failing(at: str) -> Any:
    memories = LocalMemories()

    class Broken(BrokenMemory):
        async def replace(self, turns: Any) -> None:
            if at == "replace":
                raise MemoryFailed("disk full")

        async def clear(self) -> None: ...

    def open_memory(execution: Any, session: str, node: str, *, window: int, ttl_s: int) -> Any:
        memory = memories(execution, session, node, window=window, ttl_s=ttl_s)
        return Broken(memory, MemoryFailed("disk full"), at)

    return open_memory


def test_a_failed_write_fires_the_error_output_and_the_answer_stands() -> None:
    lab = ported(expose_error_output=True)
    lab.memories = failing("append")
    said = asyncio.run(lab.say("question"))
    assert said.outcome.reply == {"output": "answer 1"}
    assert said.of("Failed")[0].inputs == [[{"error": "disk full"}]]
    lab = overwriting(expose_error_output=True)
    lab.memories = failing("replace")
    said = asyncio.run(lab.say("question"))
    assert said.of("Failed")[0].inputs == [[{"error": "disk full"}]] and not said.of("Success")


def test_without_the_error_output_a_failed_write_is_a_failure() -> None:
    lab = ported()
    lab.memories = failing("append")
    assert asyncio.run(lab.say("question")).outcome.error is not None


def test_in_redis_what_falls_out_is_gone(redis_url: str) -> None:
    async def main() -> None:
        async with redis_parts(redis_url) as (pipe, memories, _):
            lab = Lab([window(window_size=4)], memories=memories, model=answers(4))
            for number in range(1, 5):
                execution = await running(pipe, f"{lab.id}-{number}")
                assert (await lab.say(f"question {number}", execution=execution)).outcome.error is None
            key = f"convoq:mem:{lab.id}:s:Mem"
            raw = b"".join(await pipe.command("LRANGE", key, 0, -1))
            assert b"question 2" not in raw and b"question 3" in raw and b"question 4" in raw
            assert 3590 < await pipe.command("TTL", key) <= 3600

    asyncio.run(main())
