"""Who makes models for nodes that ask one of their own: a part of the services, so that a trial can put in a mock."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from convoq.contract.model import Model
from convoq.models.openai import OpenAIModel


class ModelMaker:
    """`openai` takes what `OpenAIModel` takes."""

    def __init__(self, openai: Callable[..., Model] = OpenAIModel) -> None:
        self._openai = openai

    def openai(self, *given: Any, **named: Any) -> Model:
        return self._openai(*given, **named)
