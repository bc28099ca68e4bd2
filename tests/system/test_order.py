"""Many conversations at once: each answer is its own question's, each session's turns run one after the other."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pytest

from tests.stack import Stack, chat_workflow

SESSIONS = 50
MESSAGES = 10


@dataclass(frozen=True)
class Conversation:
    session: str
    questions: Sequence[str]
    answers: Sequence[str]
    executions: Sequence[dict[str, Any]]


def questions(number: int) -> list[str]:
    """The last can only be answered when the first was run before it, and remembered."""
    name = "Ada" + chr(ord("a") + number % 26) + chr(ord("a") + number // 26)
    return [f"my name is {name}", *(f"What is {number + 2} * {k}?" for k in range(2, MESSAGES)), "What is my name?"]


def expected(number: int) -> list[str]:
    name = questions(number)[0].removeprefix("my name is ")
    products = [(number + 2) * k for k in range(2, MESSAGES)]
    told = [f"Based on the tools: Calculator returned {product}." for product in products]
    return [f"Nice to meet you, {name}.", *told, f"Your name is {name}."]


@pytest.fixture(scope="module")
def conversations(product: Stack) -> list[Conversation]:
    """500 messages; those of one session are sent as fast as they are accepted, all sessions at the same time."""
    product.install(chat_workflow("crowd", window=MESSAGES))

    def converse(number: int) -> Conversation:
        session = f"crowd {number}"
        with ExitStack() as open_answers:
            # The headers come once a message is accepted: so this is the order in which the session's messages came.
            answers = [open_answers.enter_context(product.live("crowd", text, session)) for text in questions(number)]
            texts = [answer.text() for answer in answers]
            ids = [answer.execution_id for answer in answers]
        return Conversation(session, questions(number), texts, [product.execution(each) for each in ids])

    with ThreadPoolExecutor(SESSIONS) as pool:
        return list(pool.map(converse, range(SESSIONS)))


def test_every_answer_is_exact_and_its_own_questions(conversations: list[Conversation]) -> None:
    assert [list(c.answers) for c in conversations] == [expected(number) for number in range(SESSIONS)]


def test_memory_holds_each_session_in_the_order_it_was_said(product: Stack, conversations: list[Conversation]) -> None:
    for number, conversation in enumerate(conversations):
        pairs = zip(questions(number), expected(number), strict=True)
        turns = [element for q, a in pairs for element in (("user", q), ("assistant", a))]
        assert product.remembered("crowd", conversation.session) == turns


def test_the_turns_of_a_session_never_overlap(conversations: list[Conversation]) -> None:
    for conversation in conversations:
        for earlier, later in pairwise(conversation.executions):
            assert earlier["ended"] <= later["started"]


def test_execution_ids_sort_in_the_order_of_acceptance(conversations: list[Conversation]) -> None:
    for conversation in conversations:
        ids = [execution["id"] for execution in conversation.executions]
        assert ids == sorted(ids)


def test_both_workers_took_part_and_nothing_failed(conversations: list[Conversation]) -> None:
    executions = [execution for conversation in conversations for execution in conversation.executions]
    assert len({execution["id"] for execution in executions}) == SESSIONS * MESSAGES
    assert {(execution["status"], execution["attempt"]) for execution in executions} == {("success", 1)}
    assert len({execution["worker"] for execution in executions}) == 2


def test_nothing_of_the_queue_is_left_behind(product: Stack, conversations: list[Conversation]) -> None:
    with product.redis() as client:
        assert client.llen("convoq:rq:queue:chat") == 0
        assert client.llen("convoq:rq:queue:chat:intermediate") == 0
        assert client.zcard("convoq:rq:wip:chat") == 0
        assert client.zcard("convoq:lease") == 0
        assert not [key for key in client.scan_iter("convoq:rq:rl:*") if b"crowd" in key]
