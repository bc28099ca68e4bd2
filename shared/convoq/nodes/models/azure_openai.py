"""Azure OpenAI Chat Model: OpenAI's protocol at a deployment's address."""

from __future__ import annotations

from urllib.parse import quote

from convoq.contract.connections import ConnectionType
from convoq.contract.context import Context
from convoq.contract.node import SubNode
from convoq.errors import NodeFailed
from convoq.models.openai import OpenAIModel
from convoq.nodes.models.options import ModelParameters, text

API_VERSION = "2025-03-01-preview"
"""n8n's default for a credential that names none."""


class AzureOpenAIModelNode(SubNode[ModelParameters]):
    """`model` is the deployment's name. The address is the credential's `endpoint`, or that of its `resourceName`."""

    type = "@n8n/n8n-nodes-langchain.lmChatAzureOpenAi"
    versions = (1, 1)
    parameters_class = ModelParameters
    supplies = ConnectionType.LANGUAGE_MODEL
    credentials = ("azureOpenAiApi",)

    async def supply(self, ctx: Context[ModelParameters], item_index: int) -> OpenAIModel:
        parameters = await ctx.parameters(item_index)
        fields = await ctx.needed_credential("azureOpenAiApi")
        deployment = parameters.model_name
        if not deployment:
            raise NodeFailed("parameter 'model' is empty: it should be the name of an Azure deployment")
        resource = text(fields.get("resourceName"))
        endpoint = text(fields.get("endpoint")) or (f"https://{quote(resource)}.openai.azure.com" if resource else "")
        if not endpoint:
            raise NodeFailed("the credential azureOpenAiApi has neither an endpoint nor a resource name")
        version = text(fields.get("apiVersion")) or API_VERSION
        return OpenAIModel(
            ctx.services.http,
            deployment,
            f"{endpoint.rstrip('/')}/openai/deployments/{quote(deployment, safe='')}",
            None,
            parameters.options.settings(ctx.services.settings),
            query={"api-version": version},
            headers={"api-key": text(fields.get("apiKey"))},
        )
