"""The model adapters, each with its server's wire: a new one is listed here, and has all cases to pass."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field

from convoq.contract.model import Model, ModelSettings
from convoq.models.openai import OpenAIModel
from convoq.models.provider import ProviderModel
from tests.misbehaving.anthropic_wire import AnthropicWire
from tests.misbehaving.case import Case, Wire
from tests.misbehaving.cases import COMMON
from tests.misbehaving.openai_wire import CASES, OpenAIWire
from tests.models.server import http_client

Open = Callable[[str, ModelSettings], AbstractAsyncContextManager[Model]]


@dataclass(frozen=True)
class Adapter:
    """`gives_up` names the cases in which the library below gives up, with what it then says: a `model_failed`."""

    name: str
    open: Open
    wire: Callable[[], Wire]
    cases: Sequence[Case]
    gives_up: Mapping[str, str] = field(default_factory=dict)


@asynccontextmanager
async def openai(url: str, settings: ModelSettings) -> AsyncIterator[Model]:
    async with http_client() as http:
        yield OpenAIModel(http, "m", url, settings=settings, backoff_s=0)


@asynccontextmanager
async def provider(url: str, settings: ModelSettings) -> AsyncIterator[Model]:
    from openai import AsyncOpenAI
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.profiles.openai import OpenAIModelProfile
    from pydantic_ai.providers.openai import OpenAIProvider

    profile = OpenAIModelProfile(openai_chat_streaming_requires_finish_reason=True)
    async with AsyncOpenAI(base_url=url, api_key="none") as client:
        server = OpenAIProvider(openai_client=client)
        yield ProviderModel(OpenAIChatModel("m", provider=server, profile=profile), settings, backoff_s=0)


@asynccontextmanager
async def anthropic(url: str, settings: ModelSettings) -> AsyncIterator[Model]:
    from anthropic import AsyncAnthropic
    from pydantic_ai.models.anthropic import AnthropicModel
    from pydantic_ai.providers.anthropic import AnthropicProvider

    async with AsyncAnthropic(base_url=url.removesuffix("/v1"), api_key="none") as client:
        server = AnthropicProvider(anthropic_client=client)
        yield ProviderModel(AnthropicModel("m", provider=server), settings, backoff_s=0)


UNREADABLE = ("one unreadable event", "nine unreadable events", "ten unreadable events")
ADAPTERS: Sequence[Adapter] = [
    Adapter("openai", openai, OpenAIWire, [*COMMON, *CASES]),
    Adapter(
        "pydantic-ai",
        provider,
        OpenAIWire,
        COMMON,
        dict.fromkeys(UNREADABLE, "Failed to decode"),
    ),
    Adapter("anthropic", anthropic, AnthropicWire, COMMON, dict.fromkeys(UNREADABLE, "in its SDK")),
]
