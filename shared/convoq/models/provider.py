"""Every provider that does not speak OpenAI's chat completions, through pydantic-ai's `direct` interface."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, contextmanager
from typing import TYPE_CHECKING, cast

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
from convoq.models.retry import BACKOFF_S, STATUSES, Transient, retrying
from convoq.models.words import problem_in, short

if TYPE_CHECKING:  # importing pydantic-ai takes longer than starting a worker: only who uses a provider pays
    from pydantic_ai.messages import ModelMessage, ModelRequestPart, ModelResponsePart, ModelResponseStreamEvent
    from pydantic_ai.models import Model as ProviderClient
    from pydantic_ai.models import StreamedResponse
    from pydantic_ai.settings import ModelSettings as ProviderSettings

MOST_THOUGHTS = 50
"""Model calls whose thoughts are kept: those of one turn."""


@contextmanager
def needs(provider: str) -> Iterator[None]:
    """Around the imports of a provider. Raises `NodeFailed` that says what to install."""
    try:
        yield
    except ImportError as error:
        raise NodeFailed(f"the provider {provider!r} is not installed: pip install 'convoq[providers]'") from error


class ProviderModel:
    """`client` is a ready pydantic-ai model, key and connection pool included."""

    def __init__(
        self,
        client: ProviderClient,
        settings: ModelSettings = ModelSettings(),  # noqa: B008
        *,
        backoff_s: float = BACKOFF_S,
    ) -> None:
        self.name = client.model_name
        self.settings = settings
        self._backoff_s = backoff_s
        self._thoughts: dict[tuple[str, ...], list[ModelResponsePart]] = {}
        self._client = client

    def stream(
        self, messages: Sequence[Message], tools: Sequence[ToolSpec], settings: ModelSettings
    ) -> AsyncGenerator[Delta, None]:
        return retrying(lambda: self._attempt(messages, tools, settings), settings.max_retries, self._backoff_s)

    async def _attempt(
        self, messages: Sequence[Message], tools: Sequence[ToolSpec], settings: ModelSettings
    ) -> AsyncGenerator[Delta, None]:
        from pydantic_ai.direct import model_request_stream
        from pydantic_ai.exceptions import ContentFilterError, ModelConnectionError, ModelHTTPError, ModelTimeoutError
        from pydantic_ai.models import ModelRequestParameters
        from pydantic_ai.tools import ToolDefinition

        definitions = [
            ToolDefinition(name=tool.name, description=tool.description, parameters_json_schema=dict(tool.parameters))
            for tool in tools
        ]
        opening = model_request_stream(
            self._client,
            _history(messages, self._thoughts),
            model_settings=_settings(self._client, settings),
            model_request_parameters=ModelRequestParameters(function_tools=definitions),
        )
        patience = Patience(settings)
        stream: StreamedResponse | None = None
        try:
            async with AsyncExitStack() as stack:
                with patience:
                    stream = await stack.enter_async_context(opening)
                events = aiter(stream)
                while True:
                    with patience:
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
            message = short(problem_in(error.body) or str(error.body or error.message))
            failure = self._failed(
                f"answered {error.status_code}: {message}",
                provider_status=error.status_code,
                provider_message=message,
            )
            if error.status_code in STATUSES:
                raise Transient(failure, error.retry_after) from error
            raise failure from error
        except ModelConnectionError as error:
            failure = self._failed(f"failed: {_reason(error)}")
            raise failure if isinstance(error, ModelTimeoutError) else Transient(failure) from error
        except Exception as error:  # pydantic-ai lets some of the SDKs' own exceptions through
            raise self._failed(f"failed: {_reason(error)}") from error
        finally:
            patience.close()
        response = stream.get()
        if response.finish_reason is None:
            raise self._failed("stream ended early")
        if response.finish_reason == "error":
            raise self._failed("failed: it stopped with the finish reason 'error'")
        for call in response.tool_calls:
            arguments = call.args if isinstance(call.args, str) else call.args_as_json_str()
            yield CallDelta(ToolCall(call.tool_call_id, call.tool_name, arguments or "{}"))
        if thoughts := [part for part in response.parts if part.part_kind == "thinking"]:
            self._keep(tuple(call.tool_call_id for call in response.tool_calls), thoughts)
        usage = response.usage
        yield Finish(
            finish_reason(response.finish_reason),
            usage.input_tokens,
            usage.output_tokens,
            usage.output_reasoning_tokens,
        )

    def _keep(self, calls: tuple[str, ...], thoughts: Sequence[ModelResponsePart]) -> None:
        """Thoughts are signed, and some providers want them back with the calls that they led to."""
        if calls:
            self._thoughts[calls] = list(thoughts)
            if len(self._thoughts) > MOST_THOUGHTS:
                del self._thoughts[next(iter(self._thoughts))]

    def _failed(self, what: str, **details: object) -> ModelFailed:
        return ModelFailed(f"model {self.name!r} {what}", **details)


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


def _reason(error: Exception) -> str:
    """An exception's words, or those of the one below it: an SDK's may have none of its own."""
    words = short(str(error)) or short(str(error.__cause__ or ""))
    return words or f"{type(error.__cause__ or error).__name__} in its SDK"


def _settings(client: ProviderClient, settings: ModelSettings) -> ProviderSettings:
    from pydantic_ai.settings import ModelSettings as ProviderSettings

    wanted = ProviderSettings(
        # the SDK's own, above ours: it would not say which of the two it was
        timeout=settings.first_byte_timeout_s + settings.between_chunks_timeout_s,
        max_retries=0,  # they are ours
    )
    if settings.temperature is not None:
        wanted["temperature"] = settings.temperature
    if settings.max_tokens is not None:
        wanted["max_tokens"] = settings.max_tokens
    if settings.top_p is not None:
        wanted["top_p"] = settings.top_p
    if settings.frequency_penalty is not None:
        wanted["frequency_penalty"] = settings.frequency_penalty
    if settings.presence_penalty is not None:
        wanted["presence_penalty"] = settings.presence_penalty
    return cast("ProviderSettings", {k: v for k, v in wanted.items() if k not in client.unsupported_settings})


def _history(
    messages: Sequence[Message], thoughts: Mapping[tuple[str, ...], Sequence[ModelResponsePart]]
) -> list[ModelMessage]:
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
            said = list(thoughts.get(tuple(call.id for call in message.tool_calls), ()))
            if message.content:
                said.append(TextPart(message.content))
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
