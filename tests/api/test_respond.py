"""What a workflow answers by itself (Respond to Webhook), on its way to the client."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.engine.support import node
from tests.stack import Stack

CHAT, RESPOND = "@n8n/n8n-nodes-langchain.chatTrigger", "n8n-nodes-base.respondToWebhook"


def install(stack: Stack, path: str, *nodes: dict[str, Any], mode: str = "responseNode") -> None:
    """Chat Trigger, and then the nodes, one after the other."""
    trigger = node("Chat", CHAT, version=1.1, webhookId=path)
    trigger["parameters"] = {"public": True, "options": {"responseMode": mode}}
    every = [trigger, *nodes]
    links = {
        one["name"]: {"main": [[{"node": other["name"], "type": "main", "index": 0}]]}
        for one, other in zip(every, nodes, strict=False)
    }
    stack.install({"id": f"wf-{path}", "name": path, "nodes": every, "connections": links})


def respond(name: str = "Respond", **parameters: Any) -> dict[str, Any]:
    return node(name, RESPOND, version=1.4, parameters=parameters)


def test_the_answer_is_the_nodes(product: Stack) -> None:
    headers = {
        "entries": [{"name": "X-Lab", "value": "={{ $json.sessionId }}"}, {"name": "X-Execution-Id", "value": "no"}]
    }
    options = {"responseCode": 201, "responseHeaders": headers}
    install(product, "own", respond(respondWith="text", responseBody="=said {{ $json.chatInput }}", options=options))
    reply = product.say("own", "hello", "s-own", Origin="https://a.test")
    assert (reply.status, reply.body) == (201, b"said hello")
    assert reply.headers["content-type"] == "text/html; charset=utf-8"
    assert (reply.headers["x-lab"], reply.headers["access-control-allow-origin"]) == ("s-own", "https://a.test")
    assert reply.headers["content-security-policy"].startswith("sandbox") and reply.headers["x-execution-id"] != "no"
    assert product.execution(reply.headers["x-execution-id"])["status"] == "success"


def test_it_comes_while_the_execution_goes_on(product: Stack) -> None:
    wait = node("Wait", "n8n-nodes-base.wait", version=1.1, parameters={"amount": 5})
    stop = node("Stop", "n8n-nodes-base.stopAndError", parameters={"errorMessage": "too late"})
    install(product, "early", respond(respondWith="json", responseBody='={"m": "{{ $json.chatInput }}"}'), wait, stop)
    reply = product.say("early", 'a "quoted" word')
    assert (reply.status, reply.json) == (200, {"m": 'a "quoted" word'})
    execution = reply.headers["x-execution-id"]
    assert product.get(f"/api/v1/executions/{execution}").json["status"] == "running"
    record = product.execution(execution)
    assert record["status"] == "error" and record["error"]["message"] == "too late"


def test_no_data_a_redirect_and_a_status_without_a_body(product: Stack) -> None:
    install(product, "nothing", respond(respondWith="noData"))
    reply = product.say("nothing", "hello")
    assert (reply.status, reply.body) == (200, b"") and "content-type" not in reply.headers
    install(product, "moved", respond(respondWith="redirect", redirectURL="https://elsewhere.test/x"))
    reply = product.say("moved", "hello")
    assert (reply.status, reply.headers["location"]) == (307, "https://elsewhere.test/x")
    install(product, "bare", respond(options={"responseCode": 204}))
    reply = product.say("bare", "hello")
    assert (reply.status, reply.body) == (204, b"")


def test_without_an_answer_of_its_own_the_last_node_answers(product: Stack) -> None:
    never = node(
        "If", "n8n-nodes-base.if", version=2.2, parameters={"conditions": {"combinator": "or", "conditions": []}}
    )
    install(product, "never", never, respond(respondWith="text", responseBody="never"))
    assert product.say("never", "hello").json["chatInput"] == "hello"


def test_other_response_modes_let_it_pass(product: Stack) -> None:
    install(product, "last", respond(respondWith="text", responseBody="not this"), mode="lastNode")
    assert product.say("last", "hello").json["chatInput"] == "hello"


def test_who_reads_a_stream_gets_its_text(product: Stack) -> None:
    for mode in ("streaming", "responseNode"):
        install(product, "streamed", respond(respondWith="text", responseBody="plain text"), mode=mode)
        reply = product.say("streamed", "hello", Accept="application/x-ndjson")
        assert [line["type"] for line in reply.lines] == ["begin", "item", "end"]
        assert reply.text == "plain text"


def test_who_asks_again_is_answered_the_same(product: Stack) -> None:
    install(product, "again", respond(respondWith="text", responseBody="=at {{ $execution.id }}"))
    first, second = (product.say("again", "hello", Idempotency_Key="once-1") for _ in range(2))
    assert first.body == second.body and first.body.startswith(b"at ")


def test_a_failure_before_it_is_one(product: Stack) -> None:
    install(
        product, "before", node("Stop", "n8n-nodes-base.stopAndError", parameters={"errorMessage": "no"}), respond()
    )
    reply = product.say("before", "hello")
    assert (reply.status, reply.json["message"]) == (500, "no")


PNG = bytes.fromhex("89504e470d0a1a0a00ff")


class Picture(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "image/png")
        self.send_header("Content-Length", str(len(PNG)))
        self.end_headers()
        self.wfile.write(PNG)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def picture() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Picture) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/p.png"
        server.shutdown()
        thread.join()


def test_a_file_goes_to_the_client(redis_url: str, tmp_path: Path, picture: str) -> None:
    stack = Stack(tmp_path, f"{redis_url}/13", {"CONVOQ_EGRESS_ALLOW": "private"})
    try:
        stack.start_api()
        stack.start_worker()
        stack.wait_ready()
        fetch = node("Fetch", "n8n-nodes-base.httpRequest", version=4.2, parameters={"url": picture})
        install(stack, "file", fetch, respond(respondWith="binary"))
        reply = stack.say("file", "hello")
        assert (reply.status, reply.headers["content-type"], reply.body) == (200, "image/png", PNG)
    finally:
        stack.stop()
