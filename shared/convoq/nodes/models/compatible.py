"""Chat models of providers that speak OpenAI's chat completions at an address of their own."""

from __future__ import annotations

from typing import Any, ClassVar

from convoq.contract.connections import ConnectionType
from convoq.contract.context import Context
from convoq.contract.node import SubNode
from convoq.errors import NodeFailed
from convoq.models.openai import OpenAIModel
from convoq.nodes.models.options import ModelParameters, text


class CompatibleModelNode(SubNode[ModelParameters]):
    """`url_field` and `key_field` are the credential's; `base_url` is the provider's own address, below which (at
    `base_path`) its API is. `default_model` is n8n's."""

    parameters_class = ModelParameters
    supplies = ConnectionType.LANGUAGE_MODEL
    versions: ClassVar[tuple[float, float]] = (1, 1)
    provider: ClassVar[str]
    base_url: ClassVar[str]
    base_path: ClassVar[str] = ""
    url_field: ClassVar[str] = "url"
    key_field: ClassVar[str] = "apiKey"
    needs_key: ClassVar[bool] = True
    default_model: ClassVar[str]
    reasoning_field: ClassVar[str] = ""
    not_passed_on: ClassVar[tuple[str, ...]] = ()
    """n8n's options that this protocol has no word for."""

    async def supply(self, ctx: Context[ModelParameters], item_index: int) -> OpenAIModel:
        parameters = await ctx.parameters(item_index)
        fields = await ctx.credential(self.credentials[0]) or {}
        key = text(fields.get(self.key_field))
        if not key and self.needs_key:
            await ctx.needed_credential(self.credentials[0])
            raise NodeFailed(f"the credential for {self.provider} has no {self.key_field}")
        self._tell_what_is_left_out(ctx)
        name = self.model_name(parameters.model_name or self.default_model)
        url = (text(fields.get(self.url_field)) or self.base_url).rstrip("/")
        if self.base_path and not url.endswith(self.base_path):
            url += self.base_path
        return OpenAIModel(
            ctx.services.http,
            name,
            url,
            key or None,
            parameters.options.settings(ctx.services.settings),
            reasoning_field=self.reasoning_field,
        )

    def model_name(self, name: str) -> str:
        return name

    def _tell_what_is_left_out(self, ctx: Context[Any]) -> None:
        options = ctx.node.parameters.get("options")
        for name in self.not_passed_on:
            if isinstance(options, dict) and name in options:
                ctx.note(f"{ctx.node.name}: option {name!r} is not passed on to {self.provider}")


class OpenRouterModelNode(CompatibleModelNode):
    type = "@n8n/n8n-nodes-langchain.lmChatOpenRouter"
    title = "OpenRouter Chat Model"
    credentials = ("openRouterApi",)
    provider, base_url, default_model = "OpenRouter", "https://openrouter.ai/api/v1", "openai/gpt-4.1-mini"


class GroqModelNode(CompatibleModelNode):
    type = "@n8n/n8n-nodes-langchain.lmChatGroq"
    title = "Groq Chat Model"
    credentials = ("groqApi",)
    provider, base_url, default_model = "Groq", "https://api.groq.com/openai/v1", "llama3-8b-8192"


class DeepSeekModelNode(CompatibleModelNode):
    type = "@n8n/n8n-nodes-langchain.lmChatDeepSeek"
    title = "DeepSeek Chat Model"
    credentials = ("deepSeekApi",)
    provider, base_url, default_model = "DeepSeek", "https://api.deepseek.com", "deepseek-chat"
    reasoning_field = "reasoning_content"


class GrokModelNode(CompatibleModelNode):
    type = "@n8n/n8n-nodes-langchain.lmChatXAiGrok"
    title = "xAI Grok Chat Model"
    credentials = ("xAiApi",)
    provider, base_url, default_model = "xAI", "https://api.x.ai/v1", "grok-2-vision-1212"


class MistralModelNode(CompatibleModelNode):
    type = "@n8n/n8n-nodes-langchain.lmChatMistralCloud"
    title = "Mistral Cloud Chat Model"
    credentials = ("mistralCloudApi",)
    provider, base_url, default_model = "Mistral", "https://api.mistral.ai/v1", "mistral-small"
    not_passed_on = ("safeMode", "randomSeed")


class CohereModelNode(CompatibleModelNode):
    type = "@n8n/n8n-nodes-langchain.lmChatCohere"
    title = "Cohere Chat Model"
    credentials = ("cohereApi",)
    provider, base_url = "Cohere", "https://api.cohere.ai/compatibility/v1"
    default_model = "command-a-03-2025"


class GeminiModelNode(CompatibleModelNode):
    """Google's own address for this protocol. `host` of the credential replaces it."""

    type = "@n8n/n8n-nodes-langchain.lmChatGoogleGemini"
    title = "Google Gemini Chat Model"
    versions = (1, 1.1)
    credentials = ("googlePalmApi",)
    provider, base_url = "Google", "https://generativelanguage.googleapis.com"
    base_path, url_field, default_model = "/v1beta/openai", "host", "gemini-2.5-flash"
    not_passed_on = ("topK", "safetySettings")

    def model_name(self, name: str) -> str:
        return name.removeprefix("models/")


class OllamaModelNode(CompatibleModelNode):
    """Ollama's address for this protocol, on this machine unless the credential names another."""

    type = "@n8n/n8n-nodes-langchain.lmChatOllama"
    title = "Ollama Chat Model"
    credentials = ("ollamaApi",)
    provider, base_url, needs_key = "Ollama", "http://localhost:11434", False
    base_path, url_field, default_model = "/v1", "baseUrl", "llama3.2"
    not_passed_on = ("numCtx", "topK", "keepAlive", "numGpu", "numBatch", "numThread", "mainGpu", "lowVram", "useMMap")


class VercelModelNode(CompatibleModelNode):
    type = "@n8n/n8n-nodes-langchain.lmChatVercelAiGateway"
    title = "Vercel AI Gateway Chat Model"
    credentials = ("vercelAiGatewayApi",)
    provider, base_url, default_model = "Vercel", "https://ai-gateway.vercel.sh/v1", "openai/gpt-4o"
