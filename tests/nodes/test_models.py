"""Each provider's node asks its provider's address, with its key, in its protocol."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from aiohttp import web

from convoq.contract.execution import ExecutionInfo
from convoq.contract.items import Item
from convoq.contract.services import Services
from convoq.engine.outcome import Outcome
from convoq.engine.reading import parse_workflow
from convoq.engine.run import WorkflowRun
from convoq.memory.local import LocalMemories
from convoq.nodes.models.compatible import CompatibleModelNode
from convoq.nodes.registry import NODES, REGISTRY
from convoq.settings import Settings
from tests.agent.harness import AGENT, TRIGGER, node
from tests.models.server import DONE, delta, http_client, streams

COMPATIBLE = [name for name in NODES if isinstance(REGISTRY[name], CompatibleModelNode)]
SAYS_HI = streams(delta("Hi"), delta(None, "stop"), DONE)
CLAUDE: tuple[tuple[str, dict[str, Any]], ...] = (
    ("message_start", {"message": {"id": "m", "type": "message", "role": "assistant", "model": "c", "content": [],
                                   "stop_reason": None, "stop_sequence": None,
                                   "usage": {"input_tokens": 3, "output_tokens": 1}}}),
    ("content_block_start", {"index": 0, "content_block": {"type": "text", "text": ""}}),
    ("content_block_delta", {"index": 0, "delta": {"type": "text_delta", "text": "Hi"}}),
    ("content_block_stop", {"index": 0}),
    ("message_delta", {"delta": {"stop_reason": "end_turn", "stop_sequence": None}, "usage": {"output_tokens": 5}}),
    ("message_stop", {}),
)  # fmt: skip


@dataclass
class Provider:
    """A loopback provider, whatever the path."""

    url: str = ""
    asked: list[tuple[str, Mapping[str, str], Any]] = field(default_factory=list)

    async def handle(self, request: web.Request) -> web.StreamResponse:
        headers = {name.lower(): value for name, value in request.headers.items()}
        self.asked.append((request.path_qs, headers, await request.json()))
        if not request.path.endswith("/messages"):
            return await SAYS_HI(request)
        lines = [f"event: {name}\ndata: {json.dumps({'type': name, **data})}\n\n" for name, data in CLAUDE]
        return web.Response(text="".join(lines), content_type="text/event-stream")


@asynccontextmanager
async def provider() -> AsyncIterator[Provider]:
    found = Provider()
    app = web.Application()
    app.router.add_post("/{path:.*}", found.handle)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    found.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield found
    finally:
        await runner.cleanup()


def ask(
    kind: str, fields: Mapping[str, str] | None, parameters: Mapping[str, Any] = {}, version: float = 1
) -> tuple[Provider, Outcome, WorkflowRun]:
    """`URL` stands for the provider's in the credential."""

    async def main() -> tuple[Provider, Outcome, WorkflowRun]:
        async with provider() as server, http_client() as http:

            async def credential(kind: str, reference: Mapping[str, Any]) -> Mapping[str, Any] | None:
                return None if fields is None else {key: v.replace("URL", server.url) for key, v in fields.items()}

            nodes = [
                node("Chat", TRIGGER, 1.1, webhookId="h"),
                node("Agent", AGENT, 3.1),
                node("Model", kind, version, parameters=dict(parameters)),
            ]
            connections = {
                "Chat": {"main": [[{"node": "Agent", "type": "main", "index": 0}]]},
                "Model": {"ai_languageModel": [[{"node": "Agent", "type": "ai_languageModel", "index": 0}]]},
            }
            data = {"id": "wf", "name": "W", "nodes": nodes, "connections": connections}
            workflow = parse_workflow(data, source="t", registry=REGISTRY, strict=True)
            services = Services(Settings(), LocalMemories(), http, credential=credential)
            info = ExecutionInfo("x", 1, "wf", "W", "s", "production", 0.0)
            run = WorkflowRun(workflow, info, services)
            try:
                return server, await run.start("Chat", [Item({"chatInput": "hello"})]), run
            finally:
                await services.close()

    return asyncio.run(main())


@pytest.mark.parametrize("kind", COMPATIBLE)
def test_a_provider_that_speaks_openais_protocol(kind: str) -> None:
    node_type = REGISTRY[kind]
    assert isinstance(node_type, CompatibleModelNode)
    fields = {node_type.key_field: "secret-key", node_type.url_field: "URL"}
    server, outcome, _ = ask(kind, fields, {"options": {"temperature": 0.5}})
    assert outcome.error is None and outcome.reply["output"] == "Hi"
    ((path, headers, body),) = server.asked
    assert path == f"{node_type.base_path}/chat/completions"
    assert headers["authorization"] == "Bearer secret-key"
    assert (body["model"], body["temperature"]) == (node_type.default_model, 0.5)
    assert body["messages"][-1] == {"role": "user", "content": "hello"}


@pytest.mark.parametrize("kind", [kind for kind in COMPATIBLE if REGISTRY[kind].needs_key])  # type: ignore[union-attr]
def test_without_a_key_nothing_is_asked_and_the_error_says_what_to_do(kind: str) -> None:
    server, outcome, _ = ask(kind, None)
    assert not server.asked and outcome.error is not None and outcome.error.code == "credential_missing"
    assert f"convoq credential add {REGISTRY[kind].credentials[0]}" in outcome.error.message
    keyless, outcome, _ = ask(kind, {REGISTRY[kind].url_field: "URL"})  # type: ignore[union-attr]
    assert not keyless.asked and outcome.error is not None


def test_gemini_names_its_models_with_a_prefix() -> None:
    kind = "@n8n/n8n-nodes-langchain.lmChatGoogleGemini"
    server, _, run = ask(
        kind, {"apiKey": "k", "host": "URL"}, {"modelName": "models/gemini-2.0-flash", "options": {"topK": 3}}
    )
    assert server.asked[0][2]["model"] == "gemini-2.0-flash"
    assert "option 'topK' is not passed on to Google" in str([record.notes for record in run.run_data])


def test_a_resource_locator_names_a_model() -> None:
    chosen = {"model": {"__rl": True, "mode": "list", "value": "some/model"}}
    server, _, _ = ask("@n8n/n8n-nodes-langchain.lmChatOpenRouter", {"apiKey": "k", "url": "URL"}, chosen)
    assert server.asked[0][2]["model"] == "some/model"


def test_azure_asks_a_deployment() -> None:
    kind = "@n8n/n8n-nodes-langchain.lmChatAzureOpenAi"
    fields = {"apiKey": "secret-key", "endpoint": "URL/", "apiVersion": "2024-10-21"}
    server, outcome, _ = ask(kind, fields, {"model": "my deployment"})
    assert outcome.error is None and outcome.reply["output"] == "Hi"
    path, headers, _ = server.asked[0]
    assert path == "/openai/deployments/my%20deployment/chat/completions?api-version=2024-10-21"
    assert headers["api-key"] == "secret-key" and "authorization" not in headers
    for wrong, parameters in (({"apiKey": "k"}, {"model": "x"}), (fields, {})):
        _, outcome, _ = ask(kind, wrong, parameters)
        assert outcome.error is not None


def test_anthropic_is_asked_in_its_own_protocol() -> None:
    kind = "@n8n/n8n-nodes-langchain.lmChatAnthropic"
    parameters = {"model": {"__rl": True, "value": "claude-x"}, "options": {"maxTokensToSample": 77}}
    server, outcome, run = ask(kind, {"apiKey": "secret-key", "url": "URL"}, parameters, 1.3)
    assert outcome.error is None and outcome.reply["output"] == "Hi", outcome.error
    path, headers, body = server.asked[0]
    assert path.startswith("/v1/messages") and "secret-key" in headers.get(
        "x-api-key", headers.get("authorization", "")
    )
    assert (body["model"], body["max_tokens"], body["stream"]) == ("claude-x", 77, True)
    assert next(record.tokens for record in run.run_data if record.node == "Model") is not None
