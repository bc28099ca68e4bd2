"""OpenAI Chat Model, and any server that speaks its protocol."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal
from urllib.parse import urlsplit

from pydantic import AliasChoices, BaseModel, ConfigDict, Field

from convoq import addresses
from convoq.contract.connections import ConnectionType
from convoq.contract.context import Context
from convoq.contract.definition import Node
from convoq.contract.model import ModelSettings
from convoq.contract.node import SubNode
from convoq.contract.parameters import Parameters
from convoq.contract.services import ImpliedCredential
from convoq.errors import NodeFailed
from convoq.models.openai import OpenAIModel

OPENAI_HOST = "api.openai.com"


class ResourceLocator(BaseModel):
    """n8n's way to name a thing: picked from a list, or by its id."""

    value: str = ""


class ModelOptions(BaseModel):
    """Empty and absent mean the provider's own default. `timeout` is in milliseconds, for
    the first byte as between chunks; -1 tokens are no limit."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    base_url: str = Field("", validation_alias=AliasChoices("baseURL", "baseUrl"))
    temperature: float | None = Field(None, ge=0, le=2)
    max_tokens: int | None = Field(None, alias="maxTokens", ge=-1)
    top_p: float | None = Field(None, alias="topP", ge=0, le=1)
    frequency_penalty: float | None = Field(None, alias="frequencyPenalty", ge=-2, le=2)
    presence_penalty: float | None = Field(None, alias="presencePenalty", ge=-2, le=2)
    response_format: Literal["text", "json_object"] | None = Field(None, alias="responseFormat")
    timeout_ms: float | None = Field(None, alias="timeout", gt=0)
    max_retries: int = Field(2, alias="maxRetries", ge=0, le=10)
    reasoning_effort: str | None = Field(None, alias="reasoningEffort")


def _origin(url: str) -> tuple[str, str, str | None]:
    """Scheme, place and host; empty for what is no URL (the model says so)."""
    if addresses.fault(url):
        return "", "", None
    parts = urlsplit(url)
    return parts.scheme, parts.netloc, parts.hostname


class OpenAIParameters(Parameters):
    model: str | ResourceLocator = ""
    options: ModelOptions = ModelOptions()


class OpenAIChatModelNode(SubNode[OpenAIParameters]):
    """The base URL is that of the node's options, else of its credential, else `OPENAI_BASE_URL`; the key that of the
    credential, else `OPENAI_API_KEY` where the server is that of `OPENAI_BASE_URL`. Only OpenAI's own server
    must have one."""

    type = "@n8n/n8n-nodes-langchain.lmChatOpenAi"
    versions = (1, 1.3)
    parameters_class = OpenAIParameters
    supplies = ConnectionType.LANGUAGE_MODEL
    credentials = ("openAiApi",)

    def needed_credentials(self, node: Node) -> Sequence[str]:
        """Other servers may do without a key."""
        options = node.parameters.get("options")
        elsewhere = isinstance(options, dict) and bool(options.get("baseURL") or options.get("baseUrl"))
        return () if elsewhere else self.credentials

    async def supply(self, ctx: Context[OpenAIParameters], item_index: int) -> OpenAIModel:
        parameters, process = (await ctx.parameters(item_index)), ctx.services.settings
        options = parameters.options
        credential = await ctx.credential("openAiApi") or {}
        own_url = _text(credential.get("url")) or process.openai_base_url
        base_url = options.base_url or own_url
        key = _text(credential.get("apiKey"))
        if isinstance(credential, ImpliedCredential) and _origin(base_url) != _origin(own_url):
            key = ""
        # An imported workflow may name any server: the operator's key goes to the operator's server only.
        if not key and process.openai_api_key and _origin(base_url) == _origin(process.openai_base_url):
            key = process.openai_api_key.get_secret_value()
        if not key and _origin(base_url)[2] == OPENAI_HOST:
            raise NodeFailed(
                f"no API key for {OPENAI_HOST}: set OPENAI_API_KEY, give the node an openAiApi credential, "
                "or name another server in its option 'Base URL'"
            )
        timeout_s = options.timeout_ms / 1000 if options.timeout_ms else None
        chosen = parameters.model
        name = chosen if isinstance(chosen, str) else chosen.value
        return OpenAIModel(
            ctx.services.http,
            name or ("gpt-4.1-mini" if ctx.node.type_version >= 1.2 else "gpt-4o-mini"),  # n8n's defaults
            base_url,
            key or None,
            ModelSettings(
                temperature=options.temperature,
                max_tokens=options.max_tokens if options.max_tokens != -1 else None,
                top_p=options.top_p,
                frequency_penalty=options.frequency_penalty,
                presence_penalty=options.presence_penalty,
                response_format=options.response_format if options.response_format != "text" else None,
                reasoning_effort=options.reasoning_effort or None,
                first_byte_timeout_s=timeout_s or process.model_first_byte_timeout_s,
                between_chunks_timeout_s=timeout_s or process.model_between_chunks_timeout_s,
                max_retries=options.max_retries,
            ),
        )


def _text(value: object) -> str:
    return value.strip() if isinstance(value, str) else ""
