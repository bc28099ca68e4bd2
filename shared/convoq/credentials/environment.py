"""Credentials in well-known environment variables: for who has one key a provider, and no wish to store it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

VARIABLES: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "anthropicApi": {"apiKey": ("ANTHROPIC_API_KEY",), "url": ("ANTHROPIC_BASE_URL",)},
    "airtableTokenApi": {"accessToken": ("AIRTABLE_API_KEY", "AIRTABLE_TOKEN")},
    "aws": {
        "accessKeyId": ("AWS_ACCESS_KEY_ID",),
        "secretAccessKey": ("AWS_SECRET_ACCESS_KEY",),
        "sessionToken": ("AWS_SESSION_TOKEN",),
        "region": ("AWS_REGION", "AWS_DEFAULT_REGION"),
    },
    "azureOpenAiApi": {
        "apiKey": ("AZURE_OPENAI_API_KEY",),
        "endpoint": ("AZURE_OPENAI_ENDPOINT",),
        "resourceName": ("AZURE_OPENAI_RESOURCE",),
        "apiVersion": ("AZURE_OPENAI_API_VERSION", "OPENAI_API_VERSION"),
    },
    "cohereApi": {"apiKey": ("COHERE_API_KEY", "CO_API_KEY")},
    "deepSeekApi": {"apiKey": ("DEEPSEEK_API_KEY",)},
    "googlePalmApi": {"apiKey": ("GEMINI_API_KEY", "GOOGLE_API_KEY"), "host": ("GEMINI_BASE_URL",)},
    "groqApi": {"apiKey": ("GROQ_API_KEY",)},
    "huggingFaceApi": {"apiKey": ("HF_TOKEN", "HUGGINGFACE_API_KEY")},
    "mistralCloudApi": {"apiKey": ("MISTRAL_API_KEY",)},
    "notionApi": {"apiKey": ("NOTION_API_KEY", "NOTION_TOKEN")},
    "ollamaApi": {"baseUrl": ("OLLAMA_BASE_URL", "OLLAMA_HOST")},
    "openAiApi": {
        "apiKey": ("CONVOQ_OPENAI_API_KEY", "OPENAI_API_KEY"),
        "url": ("CONVOQ_OPENAI_BASE_URL", "OPENAI_BASE_URL"),
    },
    "openRouterApi": {"apiKey": ("OPENROUTER_API_KEY",)},
    "perplexityApi": {"apiKey": ("PERPLEXITY_API_KEY",)},
    "pineconeApi": {"apiKey": ("PINECONE_API_KEY",)},
    "qdrantApi": {"qdrantUrl": ("QDRANT_URL",), "apiKey": ("QDRANT_API_KEY",)},
    "serpApi": {"apiKey": ("SERPAPI_API_KEY", "SERP_API_KEY")},
    "slackApi": {"accessToken": ("SLACK_BOT_TOKEN", "SLACK_TOKEN")},
    "supabaseApi": {"host": ("SUPABASE_URL",), "serviceRole": ("SUPABASE_SERVICE_ROLE_KEY", "SUPABASE_KEY")},
    "tavilyApi": {"apiKey": ("TAVILY_API_KEY",)},
    "telegramApi": {"accessToken": ("TELEGRAM_BOT_TOKEN",)},
    "xAiApi": {"apiKey": ("XAI_API_KEY",)},
}
"""n8n's credential type -> its fields -> the variables that may hold each, as the providers' own tools name them. The
first variable of a type's first field must be there."""


def credential_from_environment(kind: str, environment: Mapping[str, str] = os.environ) -> Mapping[str, Any] | None:
    """The fields, or None. `NAME_FILE` names a file that holds the value of `NAME`, as secrets are mounted."""
    fields = {}
    for field, names in VARIABLES.get(kind, {}).items():
        if (value := _first(names, environment)) is not None:
            fields[field] = value
    needed = next(iter(VARIABLES.get(kind, {"": ()})))
    return fields if needed in fields else None


def variables_of(kind: str) -> tuple[str, ...]:
    """What to set for a type, the providers' own names before convoq's."""
    names = next(iter(VARIABLES.get(kind, {}).values()), ())
    return tuple(sorted(names, key=lambda name: name.startswith("CONVOQ_")))


def _first(names: tuple[str, ...], environment: Mapping[str, str]) -> str | None:
    for name in names:
        if value := environment.get(name, "").strip():
            return value
        if path := environment.get(f"{name}_FILE"):
            try:
                return Path(path).read_text().strip() or None
            except OSError:
                return None
    return None
