"""Respond to Webhook: the answer that it makes; its way to the client is in `tests/api/test_respond.py`."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from convoq.contract.items import Binary, Item
from convoq.contract.response import HttpResponse
from convoq.engine.hooks import Hooks
from convoq.errors import BadParameter, CredentialMissing, InvalidWorkflow
from convoq.nodes.flow.respond_to_webhook import RespondParameters, _answer
from convoq.nodes.flow.tokens import signed
from tests.engine.support import Finished, arun, node
from tests.nodes.running import outputs, parse

RESPOND = "n8n-nodes-base.respondToWebhook"
ITEMS: list[dict[str, Any]] = [{"output": 'He said "hi"', "n": 1}, {"output": "two"}]


def responding(
    parameters: Mapping[str, Any], version: float = 1.5, *then: dict[str, Any], stream: bool = False, **settings: Any
) -> tuple[list[HttpResponse], Finished]:
    """What the client was answered, and the run."""
    told: list[HttpResponse] = []

    async def keep(response: HttpResponse) -> None:
        told.append(response)

    nodes = [node("Start", "start"), node("N", RESPOND, 200, version=version, parameters=dict(parameters), **settings)]
    nodes += then
    links = [f"{one['name']} > {other['name']}" for one, other in pairwise(nodes)]
    hooks = None if stream else Hooks(respond=keep)
    return told, asyncio.run(arun(parse(nodes, *links), *ITEMS, hooks=hooks, stream=stream))


JSON, HTML = "application/json; charset=utf-8", "text/html; charset=utf-8"


@pytest.mark.parametrize(
    "parameters, body, kind",
    [
        ({}, json.dumps(ITEMS[0], separators=(",", ":")), JSON),
        ({"respondWith": "allIncomingItems"}, json.dumps(ITEMS, separators=(",", ":")), JSON),
        (
            {"respondWith": "json", "responseBody": '={"said": "{{ $json.output }}"}'},
            '{"said":"He said \\"hi\\""}',
            JSON,
        ),
        ({"respondWith": "json", "responseBody": "={{ $json.n }}"}, "1", JSON),
        ({"respondWith": "json", "responseBody": {"a": "={{ $json.n }}"}}, '{"a":1}', JSON),
        ({"respondWith": "json"}, "{}", JSON),
        ({"respondWith": "text", "responseBody": "=<b>{{ $json.n }}</b>"}, "<b>1</b>", HTML),
        ({"respondWith": "text", "responseBody": "={{ $json }}"}, json.dumps(ITEMS[0], separators=(",", ":")), HTML),
        ({"options": {"responseKey": "data.item"}}, '{"data":{"item":{"output":"He said \\"hi\\"","n":1}}}', JSON),
    ],
)
def test_kinds_of_answers(parameters: dict[str, Any], body: str, kind: str) -> None:
    (told,), done = responding(parameters)
    assert told == HttpResponse(200, {"content-type": kind}, body)
    assert outputs(done) == [ITEMS], "its items go on"


def test_status_and_headers() -> None:
    entries = [
        {"name": "X-Lab ", "value": "=v {{ $json.n }}"},
        {"name": "Content-Type", "value": "text/x-lab"},
        {"name": "Content-Length", "value": "5"},
        {"name": ""},
    ]
    options = {"responseCode": 201, "responseHeaders": {"entries": entries}}
    (told,), _ = responding({"respondWith": "text", "responseBody": "made", "options": options})
    assert told == HttpResponse(201, {"x-lab": "v 1", "content-type": "text/x-lab; charset=utf-8"}, "made")


@pytest.mark.parametrize("name, value", [("X Lab", "v"), ("x", "a\r\nset-cookie: b"), ("é", "v"), ("x", "é")])
def test_what_is_no_header(name: str, value: str) -> None:
    options = {"responseHeaders": {"entries": [{"name": name, "value": value}]}}
    told, done = responding({"options": options})
    assert told == [] and isinstance(done.outcome.error, BadParameter)
    assert "is no HTTP header" in done.outcome.error.message


def test_no_data_and_another_address() -> None:
    (told,), _ = responding({"respondWith": "noData"})
    assert told == HttpResponse(200, {}, "")
    (told,), _ = responding({"respondWith": "redirect", "redirectURL": "=https://elsewhere.test/{{ $json.n }}"})
    assert told == HttpResponse(307, {"location": "https://elsewhere.test/1"})


@pytest.mark.parametrize("url", ["javascript:alert(1)", "//elsewhere.test", "", "http://x\r\ny"])
def test_what_is_no_address(url: str) -> None:
    told, done = responding({"respondWith": "redirect", "redirectURL": url})
    assert told == [] and isinstance(done.outcome.error, BadParameter)


def test_json_that_is_none() -> None:
    with pytest.raises(InvalidWorkflow, match="'N' parameter 'responseBody': not JSON"):
        responding({"respondWith": "json", "responseBody": '{"a": oops}'})
    told, done = responding({"respondWith": "json", "responseBody": '={"a": oops}'})
    assert told == [] and isinstance(done.outcome.error, BadParameter)
    assert "'responseBody': not JSON" in done.outcome.error.message


def test_only_the_first_answer_counts() -> None:
    again = node("Again", RESPOND, 400, version=1.1, parameters={"respondWith": "text", "responseBody": "two"})
    told, done = responding({"respondWith": "text", "responseBody": "one"}, 1.1, again)
    assert [response.body for response in told] == ["one"]
    assert done.run.run_data[1].notes == []
    assert "nobody waits for this answer" in done.run.run_data[2].notes[0]


@pytest.mark.parametrize("version, options, count", [(1.1, {}, 1), (1.3, {}, 2), (1.4, {}, 1), (1.4, {"on": True}, 2)])
def test_what_was_answered_may_come_out_of_a_second_output(version: float, options: Any, count: int) -> None:
    given = {"respondWith": "text", "responseBody": "hi", "options": {"enableResponseOutput": True} if options else {}}
    _, done = responding(given, version)
    found = outputs(done)
    assert len(found) == count
    if count == 2:
        assert found[1] == [{"response": {"statusCode": 200, "headers": {"content-type": HTML}, "body": "hi"}}]


def test_who_reads_a_stream_gets_the_texts() -> None:
    for parameters, texts in (
        ({"respondWith": "text", "responseBody": "plain"}, ["plain"]),
        ({"respondWith": "allIncomingItems"}, [json.dumps(item, separators=(",", ":")) for item in ITEMS]),
        ({"respondWith": "noData"}, []),
        ({"respondWith": "text", "responseBody": "x", "options": {"enableStreaming": False}}, []),
    ):
        _, done = responding(parameters, 1.1, stream=True)
        assert done.lines == [line for text in texts for line in ("N begin", f"N: {text}", "N end")]


class _Context:
    """Just what `_answer` asks of a file."""

    def __init__(self, item: Item) -> None:
        self.items = [item]


def test_a_file_is_the_answer() -> None:
    files = {"a": Binary("1", "text/plain", "a.txt"), "b": Binary("2", "", "b")}
    context: Any = _Context(Item({}, files))
    first = asyncio.run(_answer(context, RespondParameters.model_validate({"respondWith": "binary"})))
    assert (first.file, first.type) == (files["a"], "text/plain")
    named = {"respondWith": "binary", "responseDataSource": "set", "inputFieldName": "b"}
    second = asyncio.run(_answer(context, RespondParameters.model_validate(named)))
    assert (second.file, second.type) == (files["b"], "application/octet-stream")
    missing = RespondParameters.model_validate({**named, "inputFieldName": "c"})
    with pytest.raises(BadParameter, match="there is no file 'c' in the first item, only 'a', 'b'"):
        asyncio.run(_answer(context, missing))


def test_tokens() -> None:
    secret = "a secret of more than thirty-two bytes"
    token = signed({"sub": "x"}, {"keyType": "passphrase", "secret": secret, "algorithm": "HS256"})
    assert jwt.decode(token, secret, algorithms=["HS256"]) == {"sub": "x"}
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    pem = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ).decode()
    for written in (pem, pem.replace("\n", " "), pem.replace("\n", "\\n")):
        token = signed({"sub": "y"}, {"keyType": "pemKey", "privateKey": written, "algorithm": "RS256"})
        assert jwt.decode(token, key.public_key(), algorithms=["RS256"]) == {"sub": "y"}


@pytest.mark.parametrize(
    "credential",
    [{}, {"secret": "x" * 40, "algorithm": "none"}, {"secret": "x" * 40, "algorithm": "RS256"}, {"keyType": "pemKey"}],
)
def test_a_key_that_does_not_sign(credential: dict[str, Any]) -> None:
    with pytest.raises(CredentialMissing, match="jwtAuth"):
        signed({}, credential)


def test_a_token_without_its_credential() -> None:
    told, done = responding({"respondWith": "jwt", "payload": '{"a": 1}'})
    assert told == [] and isinstance(done.outcome.error, CredentialMissing)
    with pytest.raises(BadParameter, match="payload"):
        signed([1], {"secret": "x" * 40})
