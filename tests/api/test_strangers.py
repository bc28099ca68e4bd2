"""What a visitor of a public chat reads when something fails: a sentence and an id, nothing of the inside."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from convoq.errors import ConvoqError, NodeFailed, public_text
from tests.api.serving import serving
from tests.cli.support import convoq
from tests.models.server import ModelServer, delta, replies, streams
from tests.stack import Reply, Stack, chat_workflow, until, valkey

INSIDE = "relation n8n_chat_histories does not exist at db-7.internal"
SENTENCE = "The language model could not answer."
FAILS = replies(400, {"error": {"message": INSIDE}})
CUT = streams(delta("Half an ans"), then="cut")


@pytest.fixture(scope="module")
def public(redis_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """As compose starts it: details are not for clients."""
    env = {"CONVOQ_ERROR_DETAILS": "false"}
    stack = Stack(tmp_path_factory.mktemp("public"), f"{redis_url}/9", env)
    try:
        stack.start_api()
        stack.start_worker()
        stack.wait_ready()
        yield stack
    finally:
        stack.stop()


@pytest.fixture(scope="module")
def model() -> Iterator[ModelServer]:
    with serving(FAILS) as server:
        yield server


def workflow(path: str, url: str, *, agent: dict[str, Any] | None = None, **trigger: Any) -> dict[str, Any]:
    node = {
        "type": "@n8n/n8n-nodes-langchain.lmChatOpenAi",
        "typeVersion": 1.2,
        "parameters": {"options": {"baseURL": url, "maxRetries": 0}},
    }
    made = chat_workflow(path, model=node, **trigger)
    made["nodes"][1] |= agent or {}
    return made


def error_of(reply: Reply, form: str) -> tuple[str, str]:
    """(code, text) of a failed answer."""
    if form == "application/json":
        return reply.json["code"], reply.json["message"]
    lines = reply.body.decode().splitlines()
    chunks = [json.loads(line.removeprefix("data: ")) for line in lines if "{" in line]
    assert [chunk["type"] for chunk in chunks][-2:] == ["error", "end"]
    assert [chunk["seq"] for chunk in chunks] == list(range(len(chunks)))
    return chunks[-2]["code"], chunks[-2]["content"]


FORMS = ["application/x-ndjson", "text/event-stream", "application/json"]


@pytest.mark.parametrize("form", FORMS)
def test_a_failure_is_a_sentence_with_the_executions_id(public: Stack, model: ModelServer, form: str) -> None:
    public.install(workflow("fails", model.url))
    reply = public.say("fails", "hello", form, Accept=form)
    execution_id = reply.headers["x-execution-id"]
    assert error_of(reply, form) == ("model_failed", f"{SENTENCE} (execution {execution_id})")
    assert b"db-7" not in reply.body and b"Model" not in reply.body.replace(b"nodeName", b"")
    record = public.execution(execution_id)
    assert INSIDE in record["error"]["message"]
    assert [run["node"] for run in record["data"] if run["error"] and INSIDE in run["error"]["message"]]
    listed = convoq("failed", cwd=public.folder, env={"CONVOQ_REDIS_URL": public.redis_url}).stdout
    assert any(execution_id in line and INSIDE in line for line in listed.splitlines())
    worker = public.processes[1].log.read_text()
    assert any(execution_id in line and INSIDE in line for line in worker.splitlines())


def test_what_was_said_before_the_failure_stays(public: Stack) -> None:
    with serving(CUT) as server:
        public.install(workflow("cut", server.url))
        reply = public.say("cut", "hello")
    assert reply.text == "Half an ans"
    assert error_of(reply, FORMS[0])[1].startswith(SENTENCE)


def test_who_comes_back_reads_the_same(public: Stack, model: ModelServer) -> None:
    public.install(workflow("again", model.url, errorMessage="Sorry! Tell us: {executionId}"))
    first = public.say("again", "hello")
    execution_id, token = first.headers["x-execution-id"], first.headers["x-stream-token"]
    assert error_of(first, FORMS[0]) == ("model_failed", f"Sorry! Tell us: {execution_id}")
    assert public.get(f"/executions/{execution_id}/stream?token={token}").body == first.body


@pytest.mark.parametrize("form", FORMS)
def test_a_chat_may_have_a_text_of_its_own(public: Stack, model: ModelServer, form: str) -> None:
    public.install(workflow("own", model.url, errorMessage="Please call 555-0100."))
    reply = public.say("own", "hello", form, Accept=form)
    assert error_of(reply, form) == ("model_failed", "Please call 555-0100.")


@pytest.mark.parametrize("form", FORMS)
def test_an_error_after_which_a_node_goes_on_is_no_way_around_it(public: Stack, model: ModelServer, form: str) -> None:
    public.install(workflow("on", model.url, agent={"onError": "continueRegularOutput"}))
    reply = public.say("on", "hello", form, Accept=form)
    assert reply.status == 200
    assert INSIDE.encode() not in reply.body
    assert f"{NodeFailed.public} (execution {reply.headers['x-execution-id']})" in reply.body.decode()


def test_what_a_client_did_wrong_it_is_told(public: Stack, model: ModelServer) -> None:
    public.install(workflow("wrong", model.url))
    for body, code, said in (
        ({"chatInput": 1}, "bad_request", "chatInput is a number, not a string"),
        ({"chatInput": "x", "sessionId": {}}, "bad_session", "sessionId is an object"),
    ):
        reply = public.request("POST", "/webhook/wrong", body)
        assert (reply.json["code"], said in reply.json["message"]) == (code, True)
    assert "no chat at path 'nobody'" in public.say("nobody", "hello").json["message"]


def test_a_fault_before_there_is_an_execution_has_a_reference(public: Stack) -> None:
    """As of a workflow that another version of convoq has stored, and this one cannot read."""
    public.install(chat_workflow("unsound"))
    with public.redis() as client:
        client.hset("convoq:wf:wf-unsound", "json", '{"nodes": "secret-node"}')
    reply = public.say("unsound", "hello")
    assert (reply.status, reply.json["code"]) == (422, "invalid_workflow")
    assert reply.json["message"] == f"This chat is not set up correctly. (reference {reply.json['reference']})"
    assert "secret-node" not in reply.body.decode()
    logged = [line for line in public.processes[0].log.read_text().splitlines() if reply.json["reference"] in line]
    assert logged and "secret-node" in logged[0]


def test_a_redis_that_does_not_answer_is_not_named(public: Stack) -> None:
    with valkey(public.folder, save="") as server:
        stack = Stack(public.folder, server.connection_url, public.env)
        try:
            stack.start_api()
            until(stack.answers, "the API")
            server.stop()
            reply = stack.say("nobody", "hello")
        finally:
            stack.stop()
    assert (reply.status, reply.json["code"], reply.headers["retry-after"]) == (503, "unavailable", "5")
    assert reply.json["message"].startswith("The service cannot take messages at the moment.")
    assert "127.0.0.1" not in reply.body.decode() and "edis" not in reply.body.decode()


def test_who_manages_convoq_reads_all(public: Stack) -> None:
    reply = public.request("POST", "/api/v1/workflows", {"nodes": "secret-node"})
    assert (reply.status, "secret-node" in reply.json["message"]) == (422, True)


def test_details_are_shown_where_the_setting_says_so(product: Stack, model: ModelServer) -> None:
    product.install(workflow("detailed", model.url, errorMessage="not this"))
    assert INSIDE in error_of(product.say("detailed", "hello"), FORMS[0])[1]


def test_every_kind_of_failure_has_a_sentence_or_is_about_the_client() -> None:
    def below(kind: type[ConvoqError]) -> Iterator[type[ConvoqError]]:
        yield kind
        for each in kind.__subclasses__():
            yield from below(each)

    for kind in below(ConvoqError):
        sentence = public_text(kind.code)
        assert sentence is None or (sentence.endswith(".") and "'" not in sentence), kind
        assert sentence is not None or kind.status < 500, f"{kind.__name__}: strangers would read its details"
    assert public_text("a code of a later version") == ConvoqError.public
