"""Who may ask what: CORS, allowed origins, authentication, the management API's key."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.stack import Stack, chat_workflow

ORIGIN = "https://shop.example"
KEY = "s3cret key ü"


@pytest.fixture(scope="module")
def chats(product: Stack) -> Stack:
    product.install(chat_workflow("listed", allowedOrigins="https://a.example, https://b.example:8443/ "))
    workflow = chat_workflow("embedded")
    workflow["nodes"][0]["parameters"]["mode"] = "webhook"
    product.install(workflow)
    workflow = chat_workflow("locked")
    workflow["nodes"][0]["parameters"]["authentication"] = "basicAuth"
    product.install(workflow)
    return product


@pytest.fixture(scope="module")
def guarded(chats: Stack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """Another API of the same product, with a key."""
    stack = Stack(tmp_path_factory.mktemp("guarded"), chats.redis_url, {"CONVOQ_API_KEY": KEY})
    try:
        stack.start_api()
        stack.wait_ready()
        yield stack
    finally:
        stack.stop()


@pytest.mark.parametrize("accept", ["application/x-ndjson", "application/json", "text/event-stream"])
def test_every_answer_lets_its_origin_read_it(product: Stack, accept: str) -> None:
    reply = product.say("support", "hello", "cors", Origin=ORIGIN, Accept=accept)
    assert reply.status == 200
    assert reply.headers["access-control-allow-origin"] == ORIGIN
    assert "X-Execution-Id" in reply.headers["access-control-expose-headers"]
    assert "Origin" in reply.headers["vary"]
    assert "access-control-allow-credentials" not in reply.headers


def test_no_cors_headers_without_an_origin(product: Stack) -> None:
    assert not [name for name in product.say("support", "hello", "cors").headers if name.startswith("access-control")]


@pytest.mark.parametrize("path", ["/webhook/support", "/webhook/support/chat", "/webhook/nobody", "/healthz"])
def test_a_preflight_is_answered(product: Stack, path: str) -> None:
    asked = {"Access_Control_Request_Method": "POST", "Access_Control_Request_Headers": "content-type,x-instance-id"}
    reply = product.request("OPTIONS", path, None, Origin=ORIGIN, **asked)
    assert (reply.status, reply.body) == (204, b"")
    assert reply.headers["access-control-allow-origin"] == ORIGIN
    assert reply.headers["access-control-allow-methods"] == "GET, POST, OPTIONS"
    assert reply.headers["access-control-allow-headers"] == "content-type,x-instance-id"
    assert reply.headers["access-control-max-age"] == "300"


def test_the_management_api_is_closed_to_other_peoples_pages(product: Stack) -> None:
    """A page that somebody visits must not read or change what runs on his own machine."""
    reply = product.get("/api/v1/workflows", Origin=ORIGIN)
    assert "access-control-allow-origin" not in reply.headers
    asked = {"Access_Control_Request_Method": "POST", "Access_Control_Request_Headers": "content-type"}
    preflight = product.request("OPTIONS", "/api/v1/workflows", None, Origin=ORIGIN, **asked)
    assert preflight.status == 405
    assert "access-control-allow-origin" not in preflight.headers
    simple = product.request("POST", "/api/v1/workflows", b"{}", Origin=ORIGIN, Content_Type="text/plain")
    assert (simple.status, simple.json["code"]) == (422, "bad_body")


@pytest.mark.parametrize("origin", ["https://a.example", "https://b.example:8443"])
def test_a_listed_origin_may_chat(chats: Stack, origin: str) -> None:
    reply = chats.say("listed", "my name is Ada", "listed", Origin=origin)
    assert (reply.status, reply.text) == (200, "Nice to meet you, Ada.")
    assert reply.headers["access-control-allow-origin"] == origin


@pytest.mark.parametrize(
    "origin", ["https://evil.example", "https://a.example.evil.example", "http://a.example", "null"]
)
def test_another_origin_may_not_and_is_told_so(chats: Stack, origin: str) -> None:
    with chats.redis() as client:
        before = client.dbsize()
        reply = chats.say("listed", "hello", "unlisted", Origin=origin)
        assert client.dbsize() == before
    assert (reply.status, reply.json["code"]) == (403, "forbidden")
    assert origin in reply.json["message"]
    assert reply.headers["access-control-allow-origin"] == origin


def test_who_sends_no_origin_is_no_browser(chats: Stack) -> None:
    assert chats.say("listed", "my name is Ada", "server").text == "Nice to meet you, Ada."


def test_a_chat_in_webhook_mode_has_no_page(chats: Stack) -> None:
    page = chats.get("/webhook/embedded")
    assert (page.status, page.json["code"]) == (404, "not_found")
    assert "/webhook/embedded" in page.json["message"]
    assert chats.say("embedded", "my name is Ada").text == "Nice to meet you, Ada."


def test_an_authentication_that_is_not_supported_lets_nobody_in(chats: Stack) -> None:
    reply = chats.say("locked", "hello")
    assert (reply.status, reply.json["code"]) == (403, "forbidden")
    assert "basicAuth" in reply.json["message"]


def test_head_answers_as_get_without_a_body(product: Stack) -> None:
    reply = product.request("HEAD", "/webhook/support")
    assert (reply.status, reply.body) == (200, b"")
    assert reply.headers["content-type"] == "text/html; charset=utf-8"


MANAGEMENT = ["/api/v1/workflows", "/api/v1/workflows/wf-support", "/api/v1/executions/none"]


@pytest.mark.parametrize("path", MANAGEMENT)
@pytest.mark.parametrize("headers", [{}, {"X_API_Key": "wrong"}, {"Authorization": "Bearer "}, {"X_API_Key": "ü"}])
def test_the_management_api_needs_the_key(guarded: Stack, path: str, headers: dict[str, str]) -> None:
    reply = guarded.get(path, **headers)
    assert (reply.status, reply.json["code"]) == (401, "unauthorized")
    assert "X-API-Key" in reply.json["message"]
    assert "s3cret" not in reply.body.decode()


def test_an_import_needs_the_key(guarded: Stack) -> None:
    reply = guarded.request("POST", "/api/v1/workflows", chat_workflow("intruder"))
    assert (reply.status, reply.json["code"]) == (401, "unauthorized")
    assert guarded.say("intruder", "hello").status == 404


@pytest.mark.parametrize("header", ["X_API_Key", "X_N8N_API_KEY", "Authorization"])
def test_the_key_opens_the_management_api(guarded: Stack, header: str) -> None:
    key = KEY.encode().decode("latin-1")
    headers = {header: f"Bearer {key}" if header == "Authorization" else key}
    listed = guarded.get("/api/v1/workflows", **headers)
    assert listed.status == 200
    assert "wf-support" in [workflow["id"] for workflow in listed.json["data"]]
    reply = guarded.request("POST", "/api/v1/workflows", chat_workflow("keyed"), **headers)
    assert (reply.status, reply.json["paths"]) == (201, ["keyed"])


def test_chats_and_health_need_no_key(guarded: Stack) -> None:
    assert guarded.say("support", "my name is Ada", "keyless").text == "Nice to meet you, Ada."
    assert guarded.get("/webhook/support").status == 200
    assert guarded.get("/healthz").status == guarded.get("/readyz").status == 200


def test_an_imported_workflow_can_be_read_again(product: Stack) -> None:
    workflow = chat_workflow("read-again")
    reply = product.request("POST", "/api/v1/workflows", workflow)
    assert reply.status == 201
    assert (reply.json["id"], reply.json["name"], reply.json["active"]) == ("wf-read-again", "chat read-again", True)
    kept = product.get("/api/v1/workflows/wf-read-again").json
    assert {key: kept[key] for key in workflow} == workflow
    assert kept["active"] is True


def test_strictly_read_an_invalid_workflow_is_refused_with_all_its_faults(product: Stack) -> None:
    workflow: dict[str, Any] = chat_workflow("faulty")
    nodes = workflow["nodes"]
    nodes[1]["parameters"] = {"options": {"maxIterations": "many"}}
    nodes[2]["type"] = "convoq.noSuchModel"
    nodes[3]["parameters"] = {"contextWindowLength": "few"}
    reply = product.request("POST", "/api/v1/workflows?strict=true", workflow)
    assert (reply.status, reply.json["code"]) == (422, "invalid_workflow")
    faults = {(fault["node"], fault["parameter"]) for fault in reply.json["faults"]}
    assert ("AI Agent", "options.maxIterations") in faults
    assert ("Memory", "contextWindowLength") in faults
    assert "Model" in {node for node, _ in faults}
    for culprit in ("chat faulty", "AI Agent", "convoq.noSuchModel", "contextWindowLength"):
        assert culprit in reply.json["message"]
    assert product.say("faulty", "hello").json["code"] == "unknown_path"


@pytest.mark.parametrize(
    ("data", "culprit"),
    [
        (b"", "not JSON"),
        (b"{", "not JSON"),
        (b"[]", "list"),
        (b"{}", "nodes"),
        (b'{"nodes": 7, "connections": []}', "nodes"),
        (b'{"nodes": [' + b"[" * 5000 + b"]" * 5000 + b"]}", "nested"),
        (b'{"name": "\\ud800", "nodes": []}', "surrogate"),
        (b'{"name": "\xff", "nodes": []}', "not JSON"),
    ],
)
def test_what_is_no_workflow_is_refused(product: Stack, data: bytes, culprit: str) -> None:
    reply = product.request("POST", "/api/v1/workflows", data)
    assert (reply.status, reply.json["code"]) == (422, "invalid_workflow")
    assert culprit in reply.json["message"]


def test_an_import_tells_its_warnings(product: Stack) -> None:
    workflow = chat_workflow("dangling")
    workflow["connections"]["Nobody"] = {"main": [[{"node": "AI Agent", "type": "main", "index": 0}]]}
    reply = product.request("POST", "/api/v1/workflows?strict=true", workflow)
    assert (reply.status, reply.json["warnings"]) == (201, ["'Nobody' is not there: its connections are left out"])
    assert product.say("dangling", "my name is Ada").text == "Nice to meet you, Ada."


def test_a_failed_import_leaves_the_stored_workflow_alone(product: Stack) -> None:
    product.install(chat_workflow("kept"))
    broken = chat_workflow("kept")
    broken["nodes"][1]["type"] = "n8n-nodes-base.noSuchNode"
    assert product.request("POST", "/api/v1/workflows?strict=true", broken).status == 422
    assert product.say("kept", "my name is Ada").text == "Nice to meet you, Ada."


def test_a_path_belongs_to_one_workflow(product: Stack) -> None:
    reply = product.request("POST", "/api/v1/workflows", {**chat_workflow("support"), "id": "thief"})
    assert (reply.status, reply.json["code"]) == (409, "conflict")
    assert "'support'" in reply.json["message"] and "wf-support" in reply.json["message"]


@pytest.mark.parametrize("execution_id", ["none", "01890000-0000-7000-8000-000000000000", "%00", "x" * 500])
def test_an_unknown_execution(product: Stack, execution_id: str) -> None:
    reply = product.get(f"/api/v1/executions/{execution_id}")
    assert (reply.status, reply.json["code"]) == (404, "unknown_execution")


def test_an_unknown_workflow(product: Stack) -> None:
    reply = product.get("/api/v1/workflows/nobody's")
    assert (reply.status, reply.json["code"]) == (404, "not_found")
    assert "nobody's" in reply.json["message"]
