"""Which session a Simple Memory node remembers, and for whom."""

from __future__ import annotations

from typing import Any

import pytest

from convoq.errors import NodeFailed
from convoq.memory.local import LocalMemories
from tests.agent.harness import MEMORY, ScriptedModel, node, run_agent


def opened(version: float, chat: dict[str, Any], session: str = "from the trigger", **parameters: Any) -> Any:
    """The (session, node, window, ttl) that was opened, or the failure."""
    seen: list[Any] = []
    memories = LocalMemories()

    def open_memory(execution: Any, session: str, node: str, *, window: int, ttl_s: int) -> Any:
        seen.append((session, node, window, ttl_s))
        return memories(execution, session, node, window=window, ttl_s=ttl_s)

    bench = run_agent(
        {"Model": ScriptedModel([["ok"]])},
        chat={"chatInput": "hi", **chat},
        memory=node("My Memory", MEMORY, version, parameters=parameters),
        memories=open_memory,
        session=session,
    )
    if bench.outcome.error is not None:
        assert seen == []
        return bench.outcome.error
    (one,) = seen
    return one


@pytest.mark.parametrize("version", [1, 1.1, 1.2, 1.3, 1.4])
def test_defaults(version: float) -> None:
    assert opened(version, {"sessionId": "s"}) == ("s", "My Memory", 5, 3600)


@pytest.mark.parametrize(
    ("version", "chat", "parameters", "session"),
    [
        (1.3, {"sessionId": 7}, {}, "7"),
        (1.3, {"sessionId": 7.0}, {}, "7"),
        (1.3, {"sessionId": 7.5}, {}, "7.5"),
        (1.3, {"sessionId": True}, {}, "true"),
        (1.3, {}, {}, "from the trigger"),
        (1.3, {"sessionId": ""}, {}, "from the trigger"),
        (1.3, {"sessionId": "s"}, {"sessionKey": "ignored"}, "s"),
        (1.3, {"sessionId": "s"}, {"sessionIdType": "fromInput", "sessionKey": "ignored"}, "s"),
        (1.3, {"sessionId": "s"}, {"sessionIdType": "customKey", "sessionKey": "fixed"}, "fixed"),
        (1.3, {"sessionId": "s"}, {"sessionIdType": "customKey", "sessionKey": "=k-{{ $json.sessionId }}"}, "k-s"),
        (1.3, {"n": 3}, {"sessionIdType": "customKey", "sessionKey": "={{ $json.n }}"}, "3"),
        (1.1, {"sessionId": "s"}, {"sessionKey": "={{ $json.sessionId }}123"}, "s123"),
        (1, {"sessionId": "s"}, {"sessionKey": "chat"}, "chat"),
    ],
)
def test_sessions(version: float, chat: dict[str, Any], parameters: dict[str, Any], session: str) -> None:
    assert opened(version, chat, **parameters)[0] == session


@pytest.mark.parametrize(
    ("chat", "parameters", "said"),
    [
        ({}, {}, "No session ID found"),
        ({"sessionId": {"a": 1}}, {}, "the input's 'sessionId' must be a text or a number, not dict"),
        ({"sessionId": ["a"]}, {}, "must be a text or a number, not list"),
        ({"sessionId": "x" * 1001}, {}, "longer than 1000 characters"),
        ({}, {"sessionIdType": "customKey"}, "parameter 'sessionKey' is empty"),
        ({}, {"sessionIdType": "customKey", "sessionKey": ""}, "parameter 'sessionKey' is empty"),
        ({}, {"sessionIdType": "customKey", "sessionKey": "={{ $json.nope }}"}, "parameter 'sessionKey' is empty"),
        ({"a": {}}, {"sessionIdType": "customKey", "sessionKey": "={{ $json.a }}"}, "'sessionKey' must be a text"),
        ({"sessionId": "s"}, {"contextWindowLength": 0}, "parameter 'contextWindowLength' is 0: must be 1 to"),
        ({"sessionId": "s"}, {"contextWindowLength": -1}, "parameter 'contextWindowLength' is -1"),
        ({"sessionId": "s"}, {"contextWindowLength": 10_001}, "must be 1 to 10000"),
    ],
)
def test_refused(chat: dict[str, Any], parameters: dict[str, Any], said: str) -> None:
    failure = opened(1.3, chat, session="", **parameters)
    assert isinstance(failure, NodeFailed)
    assert said in failure.message
    assert failure.details["node"] == "My Memory"


def test_the_window_is_a_number_of_turns() -> None:
    assert opened(1.3, {"sessionId": "s"}, contextWindowLength=20)[2] == 20
    assert opened(1.3, {"sessionId": "s", "n": 3}, contextWindowLength="={{ $json.n }}")[2] == 3
