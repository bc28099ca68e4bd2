"""The running summary: when it is made, what it takes the place of, what happens when it cannot be made."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from convoq import keys
from convoq.contract.execution import ExecutionInfo
from convoq.contract.memory import Turn
from convoq.contract.model import SystemMessage, UserMessage
from convoq.errors import Fenced, InvalidWorkflow, ModelFailed
from convoq.memory.local import LocalMemories
from convoq.memory.summary import Limits, LocalFolds, RedisFolds, SummaryMemory
from tests.agent.harness import ScriptedModel, node
from tests.memory_nodes.lab import Lab, answers, link, redis_parts, running

SUMMARY = "convoq.memorySummary"
BEGINS = "Summary of our conversation up to this point:\n\n"


def lab(writer: ScriptedModel, memories: Any = None, folds: Any = None, **parameters: Any) -> Lab:
    memories = memories or LocalMemories(lambda: 0.0)
    return Lab(
        [node("Mem", SUMMARY, parameters={"maxMessages": 6, **parameters})],
        links=[link("Mem", "Agent", "ai_memory"), link("Writer", "Mem", "ai_languageModel")],
        models={"Writer": writer},
        memories=memories,
        folds=folds or LocalFolds(memories),
        model=answers(20),
    )


async def talk(lab: Lab, count: int, *, first: int = 1) -> None:
    for number in range(first, first + count):
        said = await lab.say(f"question {number}", execution=f"x{number}")
        assert said.outcome.error is None, said.outcome.error


def test_nothing_is_summed_up_within_the_limit() -> None:
    writer = ScriptedModel([["notes"]])
    chat = lab(writer)
    asyncio.run(talk(chat, 3))
    assert writer.asked == []


def test_the_oldest_turns_become_a_summary_that_the_model_is_told() -> None:
    async def main() -> None:
        writer = ScriptedModel([["They spoke of 1 to 3."], ["They spoke of 1 to 6."]])
        chat = lab(writer)
        await talk(chat, 4)
        system, user = writer.asked[0]
        assert isinstance(system, SystemMessage) and isinstance(user, UserMessage)
        assert "Old notes:\n(none)" in user.content
        assert "user: question 1\nassistant: answer 1" in user.content and "question 3" in user.content
        assert "question 4" not in user.content, "half of the limit stays as it was said"
        await chat.say("question 5", execution="x5")
        assert chat.sent() == [
            *[("user", f"{BEGINS}They spoke of 1 to 3."), ("assistant", "Understood. I will go on from there.")],
            *[("user", "question 4"), ("assistant", "answer 4"), ("user", "question 5")],
        ]
        await talk(chat, 2, first=6)
        assert "Old notes:\nThey spoke of 1 to 3." in writer.asked[1][1].content
        stored = await chat.stored()
        assert [turn.user for turn in stored] == [f"{BEGINS}They spoke of 1 to 6.", "question 7"]
        assert stored[0].hidden, "the chat is not shown it"

    asyncio.run(main())


def test_a_limit_of_tokens() -> None:
    async def main() -> None:
        writer = ScriptedModel([["short"]])
        chat = lab(writer, maxMessages=0, maxTokens=50)  # a turn is 13
        await talk(chat, 4)
        assert len(writer.asked) == 1
        assert (await chat.stored())[0].user == f"{BEGINS}short"

    asyncio.run(main())


@pytest.mark.parametrize(
    ("replies", "code"), [([[ModelFailed("overloaded")]], "model_failed"), ([["   "], []], "empty_answer")]
)
def test_when_the_model_fails_nothing_is_lost(replies: list[list[Any]], code: str) -> None:
    """The answer stands, the turns stay, the next turn tries again, and the run data says what went wrong."""

    async def main() -> None:
        writer = ScriptedModel([*replies, ["notes"]])
        chat = lab(writer)
        await talk(chat, 3)
        said = await chat.say("question 4", execution="x4")
        assert said.outcome.reply == {"output": "answer 4"}
        runs = said.of("Writer", "ai_languageModel")
        assert [run.error and run.error["code"] for run in runs] == [code] * len(replies)
        assert [turn.user for turn in await chat.stored()] == [f"question {n}" for n in range(1, 5)]
        await talk(chat, 1, first=5)
        assert [turn.user for turn in await chat.stored()] == [f"{BEGINS}notes", "question 5"]

    asyncio.run(main())


def test_a_summary_memory_needs_a_model_and_a_limit() -> None:
    with pytest.raises(InvalidWorkflow, match="ai_languageModel"):
        Lab([node("Mem", SUMMARY)])
    said = asyncio.run(lab(ScriptedModel([["x"]]), maxMessages=0).say("q"))
    assert said.outcome.error is not None and "nothing would ever be summed up" in said.outcome.error.message


def test_in_redis_the_summary_is_part_of_the_list(redis_url: str) -> None:
    async def main() -> None:
        async with redis_parts(redis_url) as (pipe, memories, folds):
            chat = lab(ScriptedModel([["notes"]]), memories, folds)
            for number in range(1, 6):
                execution = await running(pipe, f"{chat.id}-{number}")
                said = await chat.say(f"question {number}", execution=execution)
                assert said.outcome.error is None
            assert [turn.user for turn in await chat.stored()] == [f"{BEGINS}notes", "question 4", "question 5"]
            memory = keys.memory(chat.id, "s", "Mem")
            assert await pipe.command("LLEN", memory) == 6
            assert b"question 1" not in b"".join(await pipe.command("LRANGE", memory, 0, -1))
            assert 3590 < await pipe.command("TTL", memory) <= 3600
            assert await pipe.command("EXISTS", keys.folding(chat.id, "s", "Mem")) == 0, "the lock is given back"

    asyncio.run(main())


def test_a_turn_that_was_stopped_waits_for_no_summary() -> None:
    """What it leaves is summed up after the next turn that ends well."""
    memories = LocalMemories(lambda: 0.0)
    info = ExecutionInfo("x", 1, "wf", "W", "s", "production", 0.0)
    asked: list[int] = []

    async def summarise(summary: str, turns: Any) -> str:
        asked.append(len(turns))
        return "notes"

    async def pull() -> Any:
        return Limits(2, 0, lambda turn: 0), summarise

    async def main() -> None:
        inner = memories(info, "s", "Mem", window=99, ttl_s=9)
        memory = SummaryMemory(inner, LocalFolds(memories), (info, "s", "Mem"), pull, ttl_s=9)
        await memory.append(Turn("x1", "q1", "a1"))
        await memory.append(Turn("x2", "q2", "a", cut_off=True))
        assert asked == []
        await memory.append(Turn("x3", "q3", "a3"))
        assert asked == [2]

    asyncio.run(main())


class Slow(ScriptedModel):
    """Writes its summary while `meanwhile` happens."""

    meanwhile: Any = None

    async def stream(self, messages: Any, tools: Any, settings: Any) -> Any:
        if self.meanwhile is not None:
            await self.meanwhile()
        async for delta in super().stream(messages, tools, settings):
            yield delta


def test_a_turn_that_comes_while_it_is_written_is_kept(redis_url: str) -> None:
    async def main() -> None:
        async with redis_parts(redis_url) as (pipe, memories, folds):
            writer = Slow([["notes"]])
            chat = lab(writer, memories, folds)

            async def meanwhile() -> None:
                writer.meanwhile = None
                other = await running(pipe, f"{chat.id}-other")
                assert (await chat.say("in between", execution=other)).outcome.error is None

            for number in range(1, 5):
                writer.meanwhile = meanwhile if number == 4 else None
                execution = await running(pipe, f"{chat.id}-{number}")
                assert (await chat.say(f"question {number}", execution=execution)).outcome.error is None
            assert len(writer.asked) == 1, "one summary at a time"
            users = [turn.user for turn in await chat.stored()]
            assert users == [f"{BEGINS}notes", "question 4", "in between"]

    asyncio.run(main())


def test_a_summary_of_a_superseded_attempt_is_not_kept(redis_url: str) -> None:
    async def main() -> None:
        async with redis_parts(redis_url) as (pipe, memories, folds):
            writer = Slow([["notes"]])
            chat = lab(writer, memories, folds)

            async def meanwhile() -> None:
                await pipe.command("HSET", keys.execution(f"{chat.id}-4"), "token", "t2")

            for number in range(1, 5):
                writer.meanwhile = meanwhile if number == 4 else None
                execution = await running(pipe, f"{chat.id}-{number}")
                with_it = chat.say(f"question {number}", execution=execution)
                if number < 4:
                    await with_it
                    continue
                with pytest.raises(Fenced):
                    await with_it
            assert [turn.user for turn in await chat.stored()] == [f"question {n}" for n in range(1, 5)]

    asyncio.run(main())


def test_a_lock_that_was_lost_or_turns_that_changed_change_nothing(redis_url: str) -> None:
    async def main() -> None:
        async with redis_parts(redis_url) as (pipe, memories, redis_folds):
            local = LocalMemories(lambda: 0.0)
            for opened, folds in ((memories, redis_folds), (local, LocalFolds(local))):
                execution = await running(pipe, f"x-{type(folds).__name__}")
                info = ExecutionInfo(execution, 1, f"wf-{execution}", "W", "s", "production", 0.0, token="t1")
                memory = opened(info, "s", "Mem", window=99, ttl_s=60)
                turns = [Turn(f"x{n}", f"q{n}", "a") for n in range(4)]
                for turn in turns:
                    await memory.append(turn)
                place, summary = (info, "s", "Mem"), Turn("summary:1", "sum", "ok")
                token = await folds.claim(place)
                assert token is not None
                assert await folds.claim(place) is None
                assert not await folds.fold(place, "another", turns[:2], summary, 60)
                assert not await folds.fold(place, token, turns[1:3], summary, 60)
                assert await folds.claim(place) is not None, "given back"
                assert list(await memory.load()) == turns
            folds = redis_folds
            assert isinstance(folds, RedisFolds)
            await pipe.command("DEL", keys.folding(info.workflow_id, "s", "Mem"))

    asyncio.run(main())
