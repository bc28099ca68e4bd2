"""AWS Bedrock Chat Model: the models that Amazon hosts, by Bedrock's Converse interface."""

from __future__ import annotations

from convoq.contract.connections import ConnectionType
from convoq.contract.context import Context
from convoq.contract.node import SubNode
from convoq.errors import NodeFailed
from convoq.models.clients import ProviderClients
from convoq.models.provider import ProviderModel, needs
from convoq.nodes.models.options import ModelParameters, text


class BedrockModelNode(SubNode[ModelParameters]):
    type = "@n8n/n8n-nodes-langchain.lmChatAwsBedrock"
    versions = (1, 1.1)
    parameters_class = ModelParameters
    supplies = ConnectionType.LANGUAGE_MODEL
    credentials = ("aws",)

    async def supply(self, ctx: Context[ModelParameters], item_index: int) -> ProviderModel:
        with needs("bedrock"):
            from pydantic_ai.models.bedrock import BedrockConverseModel
            from pydantic_ai.providers.bedrock import BedrockProvider
        parameters = await ctx.parameters(item_index)
        fields = await ctx.needed_credential("aws")
        if not parameters.model_name:
            raise NodeFailed("parameter 'model' is empty")
        key, secret, token = (text(fields.get(name)) for name in ("accessKeyId", "secretAccessKey", "sessionToken"))
        region = text(fields.get("region")) or "us-east-1"
        provider = ctx.services.part(ProviderClients).get(
            ("bedrock", key, secret, token, region),
            lambda: BedrockProvider(
                aws_access_key_id=key,
                aws_secret_access_key=secret,
                aws_session_token=token or None,
                region_name=region,
            ),
        )
        model = BedrockConverseModel(parameters.model_name, provider=provider)
        return ProviderModel(model, parameters.options.settings(ctx.services.settings))
