"""Every provider that does not speak OpenAI's chat completions, through pydantic-ai's `direct` interface."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import AsyncExitStack, contextmanager
from typing import TYPE_CHECKING

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
)
from convoq.errors import ModelFailed, ModelTimedOut, NodeFailed
from convoq.models.finish_reason import finish_reason
from convoq.models.patience import Patience

if TYPE_CHECKING:  # importing pydantic-ai takes longer than starting a worker: only who uses a provider pays
    from pydantic_ai.messages import ModelMessage, ModelRequestPart, ModelResponsePart, ModelResponseStreamEvent
    from pydantic_ai.models import Model as ProviderClient
    from pydantic_ai.models import StreamedResponse
    from pydantic_ai.settings import ModelSettings as ProviderSettings

MAX_MESSAGE_CHARS = 500


@contextmanager
def needs(provider: str) -> Iterator[None]:
    """Around the imports of a provider. Raises `NodeFailed` that says what to install."""
    try:
        yield
    except ImportError as error:
        raise NodeFailed(f"the provider {provider!r} is not installed: pip install 'convoq[providers]'") from error


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
        from pydantic_ai.exceptions import ContentFilterError, ModelHTTPError
        from pydantic_ai.models import ModelRequestParameters
        from pydantic_ai.tools import ToolDefinition

        definitions = [
            ToolDefinition(name=tool.name, description=tool.description, parameters_json_schema=dict(tool.parameters))
            for tool in tools
        ]
        opening = model_request_stream(
            self._client,
            _history(messages),
            model_settings=_settings(settings),
            model_request_parameters=ModelRequestParameters(function_tools=definitions),
        )
        patience = Patience(settings)
        stream: StreamedResponse | None = None
        try:
            async with AsyncExitStack() as stack:
                async with patience.wait():
                    stream = await stack.enter_async_context(opening)
                events = aiter(stream)
                while True:
                    async with patience.wait():
                        event = await anext(events, None)
                    if event is None:
                        break
                    patience.heard()
                    if (delta := _delta(event)) is not None:
                        yield delta
        except TimeoutError as error:
            if stream is None or stream.finish_reason is None:
                raise ModelTimedOut(f"model {self.name!r} {patience.silence}") from error
        except ContentFilterError:
            yield Finish("content_filter")
            return
        except ModelHTTPError as error:
            reason = f"model {self.name!r} answered {error.status_code}: {_short(error.body or error.message)}"
            raise ModelFailed(reason, provider_status=error.status_code) from error
        except Exception as error:  # pydantic-ai lets some of the SDKs' own exceptions through
            raise ModelFailed(f"model {self.name!r} failed: {_short(error)}") from error
        response = stream.get()
        if response.finish_reason is None:
            raise ModelFailed(f"model {self.name!r} stream ended early")
        if response.finish_reason == "error":
            raise ModelFailed(f"model {self.name!r} failed: it stopped with the finish reason 'error'")
        for call in response.tool_calls:
            arguments = call.args if isinstance(call.args, str) else call.args_as_json_str()
            yield CallDelta(ToolCall(call.tool_call_id, call.tool_name, arguments or "{}"))
        usage = response.usage
        yield Finish(
            finish_reason(response.finish_reason),
            usage.input_tokens,
            usage.output_tokens,
            usage.output_reasoning_tokens,
        )


def _delta(event: ModelResponseStreamEvent) -> Delta | None:
    """What an event says. Tool calls are taken from the whole response."""
    from pydantic_ai.messages import (
        PartDeltaEvent,
        PartStartEvent,
        TextPart,
        TextPartDelta,
        ThinkingPart,
        ThinkingPartDelta,
    )

    if isinstance(event, PartDeltaEvent):
        if isinstance(event.delta, TextPartDelta) and event.delta.content_delta:
            return TextDelta(event.delta.content_delta)
        if isinstance(event.delta, ThinkingPartDelta) and event.delta.content_delta:
            return ReasoningDelta(event.delta.content_delta)
    elif isinstance(event, PartStartEvent):
        if isinstance(event.part, TextPart) and event.part.content:
            return TextDelta(event.part.content)
        if isinstance(event.part, ThinkingPart) and event.part.content:
            return ReasoningDelta(event.part.content)
    return None


def _short(reason: object) -> str:
    text = " ".join(str(reason).split())
    return text if len(text) <= MAX_MESSAGE_CHARS else text[: MAX_MESSAGE_CHARS - 1] + "…"


def _settings(settings: ModelSettings) -> ProviderSettings:
    from pydantic_ai.settings import ModelSettings as ProviderSettings

    # the SDK's own, above ours: it would not say which of the two it was
    given = ProviderSettings(timeout=settings.first_byte_timeout_s + settings.between_chunks_timeout_s)
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
