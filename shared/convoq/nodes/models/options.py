"""What the chat model nodes have in common: the options of a call."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import AliasChoices

from convoq.contract.model import ModelSettings
from convoq.contract.parameters import Parameters, parameter
from convoq.settings import Settings


class ModelOptions(Parameters):
    """Empty and absent mean the provider's own default. `timeout` is in milliseconds, for the first byte as between
    chunks; -1 tokens are no limit."""

    base_url: str = parameter("", validation_alias=AliasChoices("baseURL", "baseUrl"))
    temperature: float | None = parameter(None, ge=0, le=2, validation_alias=AliasChoices("temperature"))
    max_tokens: int | None = parameter(
        None,
        ge=-1,
        validation_alias=AliasChoices("maxTokens", "maxOutputTokens", "maxTokensToSample", "numPredict"),
    )
    top_p: float | None = parameter(None, ge=0, le=1)
    frequency_penalty: float | None = parameter(None, ge=-2, le=2)
    presence_penalty: float | None = parameter(None, ge=-2, le=2)
    response_format: Literal["text", "json_object"] | None = None
    timeout_ms: float | None = parameter(None, alias="timeout", gt=0)
    max_retries: int = parameter(2, ge=0, le=10)
    reasoning_effort: str | None = None

    def settings(self, process: Settings, *, json: bool = False) -> ModelSettings:
        timeout_s = self.timeout_ms / 1000 if self.timeout_ms else None
        return ModelSettings(
            temperature=self.temperature,
            max_tokens=self.max_tokens if self.max_tokens != -1 else None,
            top_p=self.top_p,
            frequency_penalty=self.frequency_penalty,
            presence_penalty=self.presence_penalty,
            response_format="json_object" if json or self.response_format == "json_object" else None,
            reasoning_effort=self.reasoning_effort or None,
            first_byte_timeout_s=timeout_s or process.model_first_byte_timeout_s,
            between_chunks_timeout_s=timeout_s or process.model_between_chunks_timeout_s,
            max_retries=self.max_retries,
        )


class ModelParameters(Parameters):
    """The model may stand under one of three names, and in a resource locator or not."""

    model: Any = parameter("", validation_alias=AliasChoices("model", "modelName", "modelId"))
    options: ModelOptions = ModelOptions()

    @property
    def model_name(self) -> str:
        chosen = self.model
        if isinstance(chosen, dict):
            chosen = chosen.get("value")
        return str(chosen).strip() if chosen is not None else ""


def text(value: object) -> str:
    return value.strip() if isinstance(value, str) else ""
