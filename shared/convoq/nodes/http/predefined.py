"""How well-known services' credential types authenticate. Types and fields are n8n's, the rest the services' own."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from yarl import URL

from convoq.nodes.http.request import Auth

Fields = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Way:
    """Templates in which `{field}` stands for a field of the credential. A header or query parameter all of whose
    fields are empty is left out where it is `optional`. `basic` is "user:password" before it is encoded."""

    headers: Mapping[str, str] = field(default_factory=dict)
    query: Mapping[str, str] = field(default_factory=dict)
    basic: str = ""
    optional: Mapping[str, str] = field(default_factory=dict)


def auth(kind: str, fields: Fields) -> Auth:
    """Raises `KeyError` for a field that is missing, `ValueError` for a type that is not known."""
    if (way := WAYS.get(kind)) is None:
        if kind.lower().endswith("oauth2api") or "oauthTokenData" in fields:
            return oauth2(fields)
        raise ValueError(
            "how it authenticates is not known; use a generic one (Header Auth, Bearer Auth, Query Auth, …)"
        )
    headers = {name: _filled(text, fields) for name, text in way.headers.items()}
    for name, text in way.optional.items():
        if any(fields.get(key) for key in _FIELD.findall(text)):
            headers[name] = _filled(text, fields)
    if way.basic:
        headers["Authorization"] = f"Basic {b64encode(_filled(way.basic, fields).encode()).decode()}"
    return Auth(headers=headers, query=tuple((name, _filled(text, fields)) for name, text in way.query.items()))


def oauth2(fields: Fields) -> Auth:
    """With the token that the credential holds; convoq does not fetch one."""
    data = fields.get("oauthTokenData")
    token = (data if isinstance(data, Mapping) else fields).get("access_token") or fields.get("accessToken")
    if not token:
        raise KeyError("oauthTokenData.access_token")
    return Auth(headers={"Authorization": f"Bearer {token}"})


def homes(kind: str, fields: Fields) -> list[str]:
    """The hosts of the service itself: the only ones that a credential goes to which the node does not name."""
    urls = [str(fields[name]) for name in ("url", "host", "endpoint", "baseUrl", "qdrantUrl") if fields.get(name)]
    hosts = [host for url in urls if (host := URL(url if "//" in url else f"//{url}").raw_host)]
    return [*hosts, *HOMES.get(kind, ())]


_FIELD: Final = re.compile(r"\{(\w+)\}")


def _filled(text: str, fields: Fields) -> str:
    return _FIELD.sub(lambda found: str(fields[found[1]]), text)


def _bearer(name: str = "apiKey") -> Way:
    return Way({"Authorization": f"Bearer {{{name}}}"})


def _header(header: str, text: str = "{apiKey}") -> Way:
    return Way({header: text})


def _query(parameter: str, text: str = "{apiKey}") -> Way:
    return Way(query={parameter: text})


WAYS: Final[Mapping[str, Way]] = {
    # models
    "openAiApi": Way({"Authorization": "Bearer {apiKey}"}, optional={"OpenAI-Organization": "{organizationId}"}),
    **dict.fromkeys(
        (
            "aimlApi",
            "cohereApi",
            "deepSeekApi",
            "groqApi",
            "huggingFaceApi",
            "jinaAiApi",
            "mistralCloudApi",
            "nvidiaApi",
            "openRouterApi",
            "perplexityApi",
            "togetherAiApi",
            "xAiApi",
        ),
        _bearer(),
    ),
    "anthropicApi": Way({"x-api-key": "{apiKey}", "anthropic-version": "2023-06-01"}),
    "azureOpenAiApi": _header("api-key"),
    "elevenLabsApi": _header("xi-api-key"),
    "falAiApi": _header("Authorization", "Key {apiKey}"),
    "googlePalmApi": _query("key"),
    "ollamaApi": Way(optional={"Authorization": "Bearer {apiKey}"}),
    "replicateApi": _bearer(),
    "stabilityAiApi": _bearer(),
    # search, retrieval, scraping
    "apifyApi": _bearer(),
    "braveSearchApi": _header("X-Subscription-Token"),
    "firecrawlApi": _bearer(),
    "pineconeApi": _header("Api-Key"),
    "qdrantApi": _header("api-key"),
    "serpApi": _query("api_key"),
    "supabaseApi": Way({"apikey": "{serviceRole}", "Authorization": "Bearer {serviceRole}"}),
    "tavilyApi": _bearer(),
    "weaviateApi": _bearer("weaviate_api_key"),
    # offices, tables, tickets, shops
    "airtableApi": _query("api_key"),
    "airtableTokenApi": _bearer("accessToken"),
    "asanaApi": _bearer("accessToken"),
    "baserowTokenApi": _header("Authorization", "Token {token}"),
    "calendlyApi": _bearer(),
    "clickUpApi": _header("Authorization", "{accessToken}"),
    "codaApi": _bearer("accessToken"),
    "hubspotAppToken": _bearer("appToken"),
    "hunterApi": _query("api_key"),
    "intercomApi": _bearer(),
    "jiraSoftwareCloudApi": Way(basic="{email}:{apiToken}"),
    "linearApi": _header("Authorization"),
    "mondayComApi": _bearer("apiToken"),
    "nocoDbApiToken": _header("xc-token", "{apiToken}"),
    "notionApi": Way({"Authorization": "Bearer {apiKey}", "Notion-Version": "2022-02-22"}),
    "pipedriveApi": _query("api_token", "{apiToken}"),
    "serviceNowBasicApi": Way(basic="{user}:{password}"),
    "shopifyAccessTokenApi": _header("X-Shopify-Access-Token", "{accessToken}"),
    "stripeApi": _bearer("secretKey"),
    "todoistApi": _bearer(),
    "trelloApi": Way(query={"key": "{apiKey}", "token": "{apiToken}"}),
    "typeformApi": _bearer("accessToken"),
    "webflowApi": _bearer("accessToken"),
    "wooCommerceApi": Way(basic="{consumerKey}:{consumerSecret}"),
    "wordpressApi": Way(basic="{username}:{password}"),
    "zendeskApi": Way(basic="{email}/token:{apiToken}"),
    # messages, code, the rest
    "discordBotApi": _header("Authorization", "Bot {botToken}"),
    "githubApi": _bearer("accessToken"),
    "gitlabApi": _header("Private-Token", "{accessToken}"),
    "grafanaApi": _bearer(),
    "homeAssistantApi": _bearer("accessToken"),
    "mailchimpApi": Way(basic="key:{apiKey}"),
    "mailgunApi": Way(basic="api:{apiKey}"),
    "n8nApi": _header("X-N8N-API-KEY"),
    "openWeatherMapApi": _query("appid", "{accessToken}"),
    "sendGridApi": _bearer(),
    "sendInBlueApi": _header("api-key"),
    "slackApi": _bearer("accessToken"),
    "telegramApi": Way(),  # the token is part of the URL
    "twilioApi": Way(basic="{accountSid}:{authToken}"),
    "whatsAppApi": _bearer("accessToken"),
}

HOMES: Final[Mapping[str, tuple[str, ...]]] = {
    "airtableTokenApi": ("api.airtable.com",),
    "anthropicApi": ("api.anthropic.com",),
    "aws": ("*.amazonaws.com", "*.amazonaws.com.cn"),
    "azureOpenAiApi": ("*.openai.azure.com",),
    "cohereApi": ("api.cohere.com", "api.cohere.ai"),
    "deepSeekApi": ("api.deepseek.com",),
    "googlePalmApi": ("generativelanguage.googleapis.com",),
    "groqApi": ("api.groq.com",),
    "huggingFaceApi": ("huggingface.co", "*.huggingface.co"),
    "mistralCloudApi": ("api.mistral.ai",),
    "notionApi": ("api.notion.com",),
    "openAiApi": ("api.openai.com",),
    "openRouterApi": ("openrouter.ai",),
    "perplexityApi": ("api.perplexity.ai",),
    "pineconeApi": ("api.pinecone.io", "*.pinecone.io"),
    "serpApi": ("serpapi.com",),
    "slackApi": ("slack.com", "*.slack.com"),
    "tavilyApi": ("api.tavily.com",),
    "xAiApi": ("api.x.ai",),
}
