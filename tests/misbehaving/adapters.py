"""The model adapters, each with its server's wire: a new one is listed here, and has all cases to pass."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from convoq.contract.model import Model, ModelSettings
from convoq.models.openai import OpenAIModel
from convoq.models.provider import ProviderModel
from tests.misbehaving import openai_wire
from tests.misbehaving.case import Case
from tests.misbehaving.cases import COMMON
from tests.models.server import http_client

Open = Callable[[str, ModelSettings], AbstractAsyncContextManager[Model]]


@dataclass(frozen=True)
class Adapter:
    """`gives_up` names the cases in which the library below gives up, with what it then says: a `model_failed`."""

    name: str
    open: Open
    wire: Any
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
    async with AsyncOpenAI(base_url=url, api_key="none", max_retries=settings.max_retries) as client:
        server = OpenAIProvider(openai_client=client)
        yield ProviderModel(OpenAIChatModel("m", provider=server, profile=profile), settings)


ADAPTERS: Sequence[Adapter] = [
    Adapter("openai", openai, openai_wire.OpenAIWire(), [*COMMON, *openai_wire.CASES]),
    Adapter(
        "pydantic-ai",
        provider,
        openai_wire.OpenAIWire(),
        COMMON,
        {
            "one unreadable event": "Failed to decode",
            "nine unreadable events": "Failed to decode",
            "ten unreadable events": "Failed to decode",
        },
    ),
]
