"""Where the OpenAI Chat Model node takes its server, key and settings from."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest
from pydantic import SecretStr

from convoq.contract.execution import ExecutionInfo
from convoq.contract.items import Item
from convoq.contract.services import Services
from convoq.engine.reading import parse_workflow
from convoq.engine.run import WorkflowRun
from convoq.errors import ConvoqError, InvalidWorkflow, NodeFailed
from convoq.memory.local import LocalMemories
from convoq.nodes.registry import REGISTRY
from convoq.settings import Settings
from tests.agent.harness import AGENT, TRIGGER, node
from tests.models.server import DONE, ModelServer, delta, http_client, model_server, replies, streams

OPENAI = "@n8n/n8n-nodes-langchain.lmChatOpenAi"
GOOD = streams(delta("Hello"), delta(None, "stop"), DONE)


def definition(version: float, parameters: Mapping[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "id": "wf",
        "name": "W",
        "active": True,
        "nodes": [
            node("Chat", TRIGGER, 1.1, webhookId="hook"),
            node("Agent", AGENT, 3.1),
            node("Model", OPENAI, version, **{"parameters": parameters, **more}),
        ],
        "connections": {
            "Chat": {"main": [[{"node": "Agent", "type": "main", "index": 0}]]},
            "Model": {"ai_languageModel": [[{"node": "Agent", "type": "ai_languageModel", "index": 0}]]},
        },
    }


def ask(
    parameters: Mapping[str, Any],
    *,
    version: float = 1.2,
    settings: Mapping[str, Any] = {},
    held: Mapping[str, Any] | None = None,
    answer: Any = GOOD,
    **more: Any,
) -> tuple[ModelServer, ConvoqError | None]:
    """Run an agent on the model. `URL` stands for the server's in parameters, settings and the credential."""

    async def main() -> tuple[ModelServer, ConvoqError | None]:
        async with model_server(answer) as server, http_client() as http:

            def filled(value: Any) -> Any:
                if isinstance(value, Mapping):
                    return {key: filled(inner) for key, inner in value.items()}
                return value.replace("URL", server.url) if isinstance(value, str) else value

            async def credential(kind: str, reference: Mapping[str, Any]) -> Mapping[str, Any] | None:
                assert kind == "openAiApi"
                return filled(held) if held is not None and reference == {"id": "1", "name": "mine"} else None

            services = Services(Settings(**filled(settings)), LocalMemories(), http, credential=credential)
            workflow = parse_workflow(definition(version, filled(parameters), more), source="test", registry=REGISTRY)
            info = ExecutionInfo("x", 1, "wf", "W", "s", "production", 0.0)
            outcome = await WorkflowRun(workflow, info, services).start("Chat", [Item({"chatInput": "hi"})])
            return server, outcome.error

    return asyncio.run(main())


@pytest.fixture(autouse=True)
def _no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "CONVOQ_OPENAI_API_KEY", "CONVOQ_OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)


PROCESS = {"openai_api_key": SecretStr("sk-process"), "openai_base_url": "URL"}


@pytest.mark.parametrize(
    ("parameters", "settings", "held", "key"),
    [
        ({"options": {"baseURL": "URL"}}, {}, None, None),
        ({"options": {"baseUrl": "URL"}}, {}, None, None),
        ({}, {"openai_base_url": "URL"}, None, None),
        ({}, PROCESS, None, "Bearer sk-process"),
        ({}, {"openai_api_key": SecretStr("sk-process")}, {"apiKey": "sk-mine", "url": "URL"}, "Bearer sk-mine"),
        ({}, PROCESS, {"apiKey": "sk-mine"}, "Bearer sk-mine"),
        ({}, PROCESS, {"apiKey": ""}, "Bearer sk-process"),
        ({"options": {"baseURL": "URL"}}, {}, {"apiKey": "sk-mine", "url": "http://127.0.0.1:1/"}, "Bearer sk-mine"),
    ],
)
def test_server_and_key(
    parameters: dict[str, Any], settings: dict[str, Any], held: dict[str, Any] | None, key: str | None
) -> None:
    references = {} if held is None else {"openAiApi": {"id": "1", "name": "mine"}}
    server, failure = ask(parameters, settings=settings, held=held, credentials=references)
    assert failure is None
    assert server.headers[0].get("Authorization") == key


@pytest.mark.parametrize(
    ("version", "model", "name"),
    [
        (1, "gpt-x", "gpt-x"),
        (1.2, {"__rl": True, "mode": "list", "value": "gpt-x"}, "gpt-x"),
        (1.3, {"__rl": True, "mode": "id", "value": "={{ $json.chatInput }}"}, "hi"),
        (1, None, "gpt-4o-mini"),
        (1.2, None, "gpt-4.1-mini"),
    ],
)
def test_model_names(version: float, model: Any, name: str) -> None:
    parameters = {"options": {"baseURL": "URL"}} | ({} if model is None else {"model": model})
    server, failure = ask(parameters, version=version)
    assert failure is None
    assert server.requests[0]["model"] == name


def test_options() -> None:
    options = {
        "baseURL": "URL",
        "temperature": "={{ 0.2 }}",
        "maxTokens": 50,
        "topP": 0.5,
        "frequencyPenalty": 0.1,
        "presencePenalty": 0.3,
        "responseFormat": "json_object",
        "reasoningEffort": "low",
    }
    server, _ = ask({"options": options})
    sent = {key: value for key, value in server.requests[0].items() if key not in ("messages", "model")}
    assert sent == {
        "stream": True,
        "stream_options": {"include_usage": True},
        "temperature": 0.2,
        "max_tokens": 50,
        "top_p": 0.5,
        "frequency_penalty": 0.1,
        "presence_penalty": 0.3,
        "response_format": {"type": "json_object"},
        "reasoning_effort": "low",
    }


def test_options_that_mean_nothing_are_not_sent() -> None:
    server, _ = ask({"options": {"baseURL": "URL", "maxTokens": -1, "responseFormat": "text"}})
    assert set(server.requests[0]) == {"model", "messages", "stream", "stream_options"}


def test_timeout_and_retries() -> None:
    silent = streams(then="hang")
    server, failure = ask({"options": {"baseURL": "URL", "timeout": 50, "maxRetries": 0}}, answer=silent)
    assert failure is not None and "sent nothing for 0.05 s" in failure.message
    server, failure = ask({"options": {"baseURL": "URL", "maxRetries": 0}}, answer=replies(500, "oops"))
    assert failure is not None and failure.details["node"] == "Model"
    assert len(server.requests) == 1


@pytest.mark.parametrize("base_url", ["https://api.openai.com/v1", "https://API.OpenAI.com/v1/"])
def test_openai_needs_a_key(base_url: str) -> None:
    _, failure = ask({}, settings={"openai_base_url": base_url})
    assert isinstance(failure, NodeFailed)
    assert "no API key for api.openai.com: set OPENAI_API_KEY" in failure.message
    assert failure.details["node"] == "Model"


@pytest.mark.parametrize(
    ("options", "parameter"),
    [
        ({"temperature": 3}, "options.temperature"),
        ({"timeout": 0}, "options.timeout"),
        ({"maxRetries": -1}, "options.maxRetries"),
        ({"responseFormat": "yaml"}, "options.responseFormat"),
    ],
)
def test_options_out_of_range_are_faults_of_the_file(options: dict[str, Any], parameter: str) -> None:
    with pytest.raises(InvalidWorkflow, match=parameter):
        parse_workflow(definition(1.2, {"options": options}, {}), source="test", registry=REGISTRY, strict=True)
