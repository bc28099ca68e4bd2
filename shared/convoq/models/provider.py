"""Every provider that does not speak OpenAI's chat completions, through pydantic-ai's `direct` interface."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from typing import TYPE_CHECKING

from convoq.contract.model import (
    AssistantMessage,
    CallDelta,
    Delta,
    Finish,
    Message,
    ModelSettings,
    SystemMessage,
    TextDelta,
    ToolCall,
    ToolMessage,
    ToolSpec,
)
from convoq.errors import ModelFailed

if TYPE_CHECKING:  # importing pydantic-ai takes longer than starting a worker: only who uses a provider pays
    from pydantic_ai.messages import ModelMessage, ModelRequestPart, ModelResponsePart
    from pydantic_ai.models import Model as ProviderClient
    from pydantic_ai.settings import ModelSettings as ProviderSettings

MAX_MESSAGE_CHARS = 500


class ProviderModel:
    """`client` is a ready pydantic-ai model, key and connection pool included. Retries are its SDK's own."""

    def __init__(self, client: ProviderClient, settings: ModelSettings = ModelSettings()) -> None:  # noqa: B008
        self.name = client.model_name
        self.settings = settings
        self._client = client

    async def stream(
        self, messages: Sequence[Message], tools: Sequence[ToolSpec], settings: ModelSettings
    ) -> AsyncGenerator[Delta, None]:
        from pydantic_ai.direct import model_request_stream
        from pydantic_ai.exceptions import ModelHTTPError
        from pydantic_ai.messages import PartDeltaEvent, PartStartEvent, TextPart, TextPartDelta
        from pydantic_ai.models import ModelRequestParameters
        from pydantic_ai.tools import ToolDefinition

        definitions = [
            ToolDefinition(name=tool.name, description=tool.description, parameters_json_schema=dict(tool.parameters))
            for tool in tools
        ]
        request = _history(messages)
        try:
            async with model_request_stream(
                self._client,
                request,
                model_settings=_settings(settings),
                model_request_parameters=ModelRequestParameters(function_tools=definitions),
            ) as stream:
                async for event in stream:
                    text = ""
                    if isinstance(event, PartStartEvent) and isinstance(event.part, TextPart):
                        text = event.part.content
                    elif isinstance(event, PartDeltaEvent) and isinstance(event.delta, TextPartDelta):
                        text = event.delta.content_delta
                    if text:
                        yield TextDelta(text)
                response = stream.get()
        except ModelHTTPError as error:
            reason = f"model {self.name!r} answered {error.status_code}: {_short(error.body or error.message)}"
            raise ModelFailed(reason, provider_status=error.status_code) from error
        except Exception as error:  # pydantic-ai lets some of the SDKs' own exceptions through
            raise ModelFailed(f"model {self.name!r} failed: {_short(error)}") from error
        for call in response.tool_calls:
            arguments = call.args if isinstance(call.args, str) else call.args_as_json_str()
            yield CallDelta(ToolCall(call.tool_call_id, call.tool_name, arguments or "{}"))
        usage = response.usage
        yield Finish(response.finish_reason or "stop", usage.input_tokens, usage.output_tokens)


def _short(reason: object) -> str:
    text = " ".join(str(reason).split())
    return text if len(text) <= MAX_MESSAGE_CHARS else text[: MAX_MESSAGE_CHARS - 1] + "…"


def _settings(settings: ModelSettings) -> ProviderSettings:
    from pydantic_ai.settings import ModelSettings as ProviderSettings

    given = ProviderSettings(timeout=settings.timeout_s)
    if settings.temperature is not None:
        given["temperature"] = settings.temperature
    if settings.max_tokens is not None:
        given["max_tokens"] = settings.max_tokens
    if settings.top_p is not None:
        given["top_p"] = settings.top_p
    if settings.frequency_penalty is not None:
        given["frequency_penalty"] = settings.frequency_penalty
    if settings.presence_penalty is not None:
        given["presence_penalty"] = settings.presence_penalty
    return given


def _history(messages: Sequence[Message]) -> list[ModelMessage]:
    """Neighbouring messages of one side are parts of one: strict providers want the sides to alternate."""
    from pydantic_ai.messages import (
        ModelRequest,
        ModelResponse,
        SystemPromptPart,
        TextPart,
        ToolCallPart,
        ToolReturnPart,
        UserPromptPart,
    )

    history: list[ModelMessage] = []
    asked: list[ModelRequestPart] = []
    for message in messages:
        if isinstance(message, AssistantMessage):
            if asked:
                history.append(ModelRequest(parts=asked))
                asked = []
            said: list[ModelResponsePart] = [TextPart(message.content)] if message.content else []
            said.extend(ToolCallPart(call.name, call.arguments, call.id) for call in message.tool_calls)
            history.append(ModelResponse(parts=said))
        elif isinstance(message, SystemMessage):
            asked.append(SystemPromptPart(message.content))
        elif isinstance(message, ToolMessage):
            asked.append(ToolReturnPart(message.name, message.content, message.tool_call_id))
        else:
            asked.append(UserPromptPart(message.content))
    if asked:
        history.append(ModelRequest(parts=asked))
    return history
