"""What a model thinks, and where its answer was cut off: by the whole path, in each form that a client may ask for."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.api.serving import serving
from tests.models.server import DONE, Answer, delta, event, streams
from tests.stack import Reply, Stack, chat_workflow

USAGE = event(
    choices=[],
    usage={"prompt_tokens": 7, "completion_tokens": 9, "completion_tokens_details": {"reasoning_tokens": 6}},
)
THINKS = streams(delta(None, reasoning_content="Hm, "), delta("<think>we"), delta("ll.</think>Nice day."), USAGE, DONE)
LONG = streams(delta("Nice "), delta("day"), delta(None, "length"), DONE)
FILTERED = streams(delta(None, "content_filter"), DONE)
EMPTY = streams(delta(None, "stop"), DONE)


def install(stack: Stack, path: str, url: str, mode: str = "streaming", **agent: Any) -> None:
    model = {
        "type": "@n8n/n8n-nodes-langchain.lmChatOpenAi",
        "typeVersion": 1.2,
        "parameters": {"model": "m-1", "options": {"baseURL": url, "maxRetries": 0}},
    }
    stack.install(chat_workflow(path, mode=mode, model=model, agent={"options": agent}))


def ask(stack: Stack, path: str, answer: Answer, accept: str, **agent: Any) -> Reply:
    with serving(answer) as server:
        install(stack, path, server.url, **agent)
        return stack.say(path, "Hello", Accept=accept)


def record(stack: Stack, reply: Reply) -> dict[str, Any]:
    """The (last) run of the model."""
    runs = stack.execution(reply.headers["x-execution-id"])["data"]
    found: dict[str, Any] = [run for run in runs if run["node"] == "Model"][-1]
    return found


@pytest.mark.parametrize(
    ("accept", "thoughts"),
    [
        ("application/x-ndjson", ""),
        ("text/plain", ""),
        ("application/x-ndjson; reasoning=true", "Hm, well."),
        ("text/plain;reasoning=TRUE, */*", "Hm, well."),
    ],
)
def test_who_asks_for_reasoning_is_given_it(product: Stack, accept: str, thoughts: str) -> None:
    path = f"thinks-{len(accept)}"
    reply = ask(product, path, THINKS, accept)
    assert reply.text == "Nice day."
    assert "".join(line["content"] for line in reply.lines if line["type"] == "reasoning") == thoughts
    assert [line["seq"] for line in reply.lines] == list(range(len(reply.lines)))
    assert [line["type"] for line in reply.lines] == ["begin", *["reasoning"] * (3 if thoughts else 0), "item", "end"]
    assert product.remembered(path) == [("user", "Hello"), ("assistant", "Nice day.")]
    run = record(product, reply)
    assert run["outputs"][0][0]["reasoning"] == "Hm, well."
    assert run["tokens"] == {"prompt": 7, "completion": 9, "reasoning": 6}


def test_reasoning_over_sse(product: Stack) -> None:
    reply = ask(product, "thinks-sse", THINKS, "text/event-stream; reasoning=true")
    lines = [json.loads(line[6:]) for line in reply.body.decode().splitlines() if line.startswith("data: ")]
    assert "".join(line["content"] for line in lines if line["type"] == "reasoning") == "Hm, well."


@pytest.mark.parametrize(
    ("accept", "expected"),
    [
        ("application/json", {"output": "Nice day."}),
        ("application/json; reasoning=true", {"output": "Nice day.", "reasoning": "Hm, well."}),
    ],
)
def test_reasoning_in_one_reply(product: Stack, accept: str, expected: dict[str, str]) -> None:
    assert ask(product, f"thinks-json-{len(accept)}", THINKS, accept).json == expected


@pytest.mark.parametrize("streams_text", [True, False])
@pytest.mark.parametrize(
    ("answer", "reason", "text"),
    [(LONG, "length", "Nice day"), (FILTERED, "content_filter", "The provider's content filter withheld this answer.")],
    ids=["length", "content filter"],
)
def test_an_answer_that_is_not_whole(
    product: Stack, answer: Answer, reason: str, text: str, streams_text: bool
) -> None:
    path = f"cut-{reason}-{streams_text}"
    streamed = ask(product, path, answer, "application/x-ndjson", enableStreaming=streams_text)
    assert streamed.text == text
    assert streamed.lines[-1]["type"] == "end"
    assert streamed.lines[-1]["metadata"]["finishReason"] == reason
    assert not [line for line in streamed.lines[:-1] if "finishReason" in line["metadata"]]
    plain = ask(product, path, answer, "application/json")
    assert plain.json == {"output": text, "finishReason": reason}
    run = record(product, plain)
    assert run["outputs"][0][0]["finishReason"] == reason and run["notes"]
    remembered = product.remembered(path)
    assert remembered == ([] if reason == "content_filter" else [("user", "Hello"), ("assistant", text)] * 2)
    logged = "".join(process.log.read_text() for process in product.processes)
    execution = plain.headers["x-execution-id"]
    assert any("an answer was cut off" in line and reason in line for line in logged.splitlines() if execution in line)


def test_a_model_that_answers_nothing(product: Stack) -> None:
    streamed = ask(product, "nothing", EMPTY, "application/x-ndjson; reasoning=true")
    assert [line["type"] for line in streamed.lines] == ["error", "end"]
    assert streamed.lines[0]["code"] == "empty_answer"
    assert "answered nothing" in streamed.lines[0]["content"]
    plain = ask(product, "nothing", EMPTY, "application/json")
    assert (plain.status, plain.json["code"]) == (502, "empty_answer")
    data = product.execution(plain.headers["x-execution-id"])["data"]
    assert [run["error"]["code"] for run in data if run["node"] == "Model"] == ["empty_answer"] * 2
    assert product.remembered("nothing") == []
