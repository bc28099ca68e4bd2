"""OpenAI Chat Model, and any server that speaks its protocol."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

from convoq import addresses
from convoq.contract.connections import ConnectionType
from convoq.contract.context import Context
from convoq.contract.definition import Node
from convoq.contract.node import SubNode
from convoq.contract.services import ImpliedCredential
from convoq.errors import NodeFailed
from convoq.models.openai import OpenAIModel
from convoq.nodes.models.options import ModelParameters, text

OPENAI_HOST = "api.openai.com"


def _origin(url: str) -> tuple[str, str, str | None]:
    """Scheme, place and host; empty for what is no URL (the model says so)."""
    if addresses.fault(url):
        return "", "", None
    parts = urlsplit(url)
    return parts.scheme, parts.netloc, parts.hostname


class OpenAIChatModelNode(SubNode[ModelParameters]):
    """The base URL is that of the node's options, else of its credential, else `OPENAI_BASE_URL`; the key that of the
    credential, else `OPENAI_API_KEY` where the server is that of `OPENAI_BASE_URL`. Only OpenAI's own server
    must have one."""

    type = "@n8n/n8n-nodes-langchain.lmChatOpenAi"
    versions = (1, 1.3)
    parameters_class = ModelParameters
    supplies = ConnectionType.LANGUAGE_MODEL
    credentials = ("openAiApi",)

    def needed_credentials(self, node: Node) -> Sequence[str]:
        """Other servers may do without a key."""
        options = node.parameters.get("options")
        elsewhere = isinstance(options, dict) and bool(options.get("baseURL") or options.get("baseUrl"))
        return () if elsewhere else self.credentials

    async def supply(self, ctx: Context[ModelParameters], item_index: int) -> OpenAIModel:
        parameters = await ctx.parameters(item_index)
        base_url, key = await server_of(ctx, parameters.options.base_url)
        return OpenAIModel(
            ctx.services.http,
            # n8n's defaults
            parameters.model_name or ("gpt-4.1-mini" if ctx.node.type_version >= 1.2 else "gpt-4o-mini"),
            base_url,
            key,
            parameters.options.settings(ctx.services.settings),
        )


async def server_of(ctx: Context[Any], chosen_url: str) -> tuple[str, str | None]:
    """The base URL and the key for it. Raises `NodeFailed` where OpenAI's own server would be asked without one."""
    process = ctx.services.settings
    credential = await ctx.credential("openAiApi") or {}
    own_url = text(credential.get("url")) or process.openai_base_url
    base_url = chosen_url or own_url
    key = text(credential.get("apiKey"))
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
    return base_url, key or None
