"""Anthropic Chat Model: Claude, by Anthropic's own protocol."""

from __future__ import annotations

from convoq.contract.connections import ConnectionType
from convoq.contract.context import Context
from convoq.contract.node import SubNode
from convoq.errors import NodeFailed
from convoq.models.clients import ProviderClients
from convoq.models.provider import ProviderModel, needs
from convoq.nodes.models.options import ModelParameters, text


class AnthropicModelNode(SubNode[ModelParameters]):
    type = "@n8n/n8n-nodes-langchain.lmChatAnthropic"
    versions = (1, 1.3)
    parameters_class = ModelParameters
    supplies = ConnectionType.LANGUAGE_MODEL
    credentials = ("anthropicApi",)

    async def supply(self, ctx: Context[ModelParameters], item_index: int) -> ProviderModel:
        with needs("anthropic"):
            from pydantic_ai.models.anthropic import AnthropicModel
            from pydantic_ai.providers.anthropic import AnthropicProvider
        parameters = await ctx.parameters(item_index)
        fields = await ctx.needed_credential("anthropicApi")
        key = text(fields.get("apiKey"))
        if not key:
            raise NodeFailed("the credential anthropicApi has no apiKey")
        url, clients = text(fields.get("url")) or None, ctx.services.part(ProviderClients)
        provider = clients.get(
            ("anthropic", key, url), lambda: AnthropicProvider(api_key=key, base_url=url, http_client=clients.http)
        )
        # n8n's default, and of 1.3 on the one that its list begins with
        name = parameters.model_name or ("claude-sonnet-4-5-20250929" if ctx.node.type_version >= 1.3 else "claude-2")
        return ProviderModel(
            AnthropicModel(name, provider=provider), parameters.options.settings(ctx.services.settings)
        )
