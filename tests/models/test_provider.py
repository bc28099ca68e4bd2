"""The adapter to pydantic-ai, with its own test models."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from pydantic_ai.exceptions import ModelHTTPError
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    SystemPromptPart,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models import StreamedResponse
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, DeltaToolCalls, FunctionModel
from pydantic_ai.models.test import TestModel as FixedModel
from pydantic_ai.models.wrapper import WrapperModel

from convoq.contract.model import (
    AssistantMessage,
    CallDelta,
    Delta,
    Finish,
    Message,
    ModelSettings,
    ReasoningDelta,
    SystemMessage,
    TextDelta,
    ToolCall,
    ToolMessage,
    ToolSpec,
    UserMessage,
)
from convoq.errors import ModelFailed
from convoq.models.provider import ProviderModel
from tests.misbehaving.adapters import anthropic
from tests.misbehaving.anthropic_wire import AnthropicWire
from tests.models.server import model_server, streams

SCHEMA = {"type": "object", "properties": {"input": {"type": "string"}}, "required": ["input"]}
CALCULATOR = ToolSpec("calc", "adds", SCHEMA)


class Finishing(WrapperModel):
    """Says why it stopped, as providers do and pydantic-ai's own test models do not."""

    @asynccontextmanager
    async def request_stream(self, *args: Any, **kwargs: Any) -> AsyncIterator[StreamedResponse]:
        async with super().request_stream(*args, **kwargs) as stream:
            stream.finish_reason = "stop"
            yield stream


async def collect(model: ProviderModel, messages: list[Message], tools: list[ToolSpec]) -> list[Delta]:
    settings = ModelSettings(temperature=0.5, max_tokens=9, top_p=0.1, frequency_penalty=0.2, presence_penalty=0.3)
    return [delta async for delta in model.stream(messages, tools, settings)]


def test_it_streams() -> None:
    model = ProviderModel(Finishing(FixedModel(custom_output_text="Hello to the world")))
    *texts, finish = asyncio.run(collect(model, [UserMessage("hi")], []))
    assert model.name == "test"
    assert len(texts) > 1
    assert "".join(delta.text for delta in texts if isinstance(delta, TextDelta)) == "Hello to the world"
    assert isinstance(finish, Finish) and finish.completion_tokens > 0


def test_what_is_sent_and_calls() -> None:
    seen: list[tuple[list[ModelMessage], AgentInfo]] = []

    async def reply(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[str | DeltaToolCalls]:
        seen.append((messages, info))
        yield "let me "
        yield "see"
        yield {1: DeltaToolCall("calc", '{"inp', tool_call_id="c9")}
        yield {1: DeltaToolCall(json_args='ut": "1"}', tool_call_id="c9")}

    messages: list[Message] = [
        SystemMessage("sys"),
        UserMessage("q"),
        AssistantMessage("", (ToolCall("c1", "calc", '{"input":"1"}'),)),
        ToolMessage("1", "c1", "calc"),
        AssistantMessage("one"),
        UserMessage("hi"),
    ]
    deltas = asyncio.run(
        collect(ProviderModel(Finishing(FunctionModel(stream_function=reply))), messages, [CALCULATOR])
    )
    assert deltas[:3] == [TextDelta("let me "), TextDelta("see"), CallDelta(ToolCall("c9", "calc", '{"input": "1"}'))]
    assert isinstance(deltas[3], Finish)
    ((sent, info),) = seen
    assert [(type(message), [type(part) for part in message.parts]) for message in sent] == [
        (ModelRequest, [SystemPromptPart, UserPromptPart]),
        (ModelResponse, [ToolCallPart]),
        (ModelRequest, [ToolReturnPart]),
        (ModelResponse, [TextPart]),
        (ModelRequest, [UserPromptPart]),
    ]
    call, back = sent[1].parts[0], sent[2].parts[0]
    assert isinstance(call, ToolCallPart) and (call.tool_call_id, call.args) == ("c1", '{"input":"1"}')
    assert isinstance(back, ToolReturnPart) and (back.tool_call_id, back.content) == ("c1", "1")
    (tool,) = info.function_tools
    assert (tool.name, tool.description, tool.parameters_json_schema) == ("calc", "adds", SCHEMA)
    assert dict(info.model_settings or {}) == {
        "timeout": 180.0,
        "max_retries": 0,
        "temperature": 0.5,
        "max_tokens": 9,
        "top_p": 0.1,
        "frequency_penalty": 0.2,
        "presence_penalty": 0.3,
    }


def test_signed_thoughts_go_back_with_the_calls_that_they_led_to() -> None:
    wire = AnthropicWire()
    thinks = streams(wire.reasoning("Hm."), wire.calls(("c1", "calc", "{}")), wire.finish("tool_calls"), wire.done)
    good = streams(wire.text("ok"), wire.finish("stop"), wire.done)

    async def main() -> list[dict[str, Any]]:
        async with (
            asyncio.timeout(30),
            model_server(thinks, good) as server,
            anthropic(server.url, ModelSettings()) as model,
        ):
            thought, asked, _ = [delta async for delta in model.stream([UserMessage("hi")], [], model.settings)]
            assert thought == ReasoningDelta("Hm.") and isinstance(asked, CallDelta)
            other = ToolCall("c0", "calc", "{}")
            messages: list[Message] = [UserMessage("hi")]
            for call in (other, asked.call):
                messages += AssistantMessage("", (call,)), ToolMessage("1", call.id, "calc")
            assert TextDelta("ok") in [delta async for delta in model.stream(messages, [], model.settings)]
            found: list[dict[str, Any]] = server.requests[1]["messages"]
            return [message for message in found if message["role"] == "assistant"]

    earlier, last = asyncio.run(main())
    assert [block["type"] for block in earlier["content"]] == ["tool_use"]
    assert [block["type"] for block in last["content"]] == ["thinking", "tool_use"]
    assert (last["content"][0]["thinking"], last["content"][0]["signature"]) == ("Hm.", "c2lnbmVk")


@pytest.mark.parametrize(
    ("error", "status", "said"),
    [
        (ModelHTTPError(429, "big", {"message": "slow down"}), 429, "answered 429: slow down"),
        (OSError("x" * 1000), None, "failed: xxx"),
    ],
)
def test_failures(error: Exception, status: int | None, said: str) -> None:
    async def reply(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[str]:
        yield "Hal"
        raise error

    model = ProviderModel(FunctionModel(stream_function=reply))
    with pytest.raises(ModelFailed) as raised:
        asyncio.run(collect(model, [UserMessage("hi")], []))
    assert said in raised.value.message
    assert raised.value.details.get("provider_status") == status
    assert len(raised.value.message) < 600


def test_pydantic_ai_is_imported_only_when_it_is_used() -> None:
    code = "import sys, convoq.models.provider; sys.exit('pydantic_ai' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
