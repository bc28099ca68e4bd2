"""A node and a connection as a workflow file has them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from convoq.contract.connections import ConnectionType

Name = Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[^\x00-\x1f\x7f]*$")]
OnError = Literal["stopWorkflow", "continueRegularOutput", "continueErrorOutput"]


class Node(BaseModel):
    """A node as the file has it. `wait_between_tries` is in milliseconds; `max_tries` counts the first try."""

    model_config = ConfigDict(extra="ignore", frozen=True, populate_by_name=True, coerce_numbers_to_str=True)

    name: Name
    id: str = Field("", max_length=200)
    type: Name
    type_version: float = Field(1, alias="typeVersion")
    position: tuple[float, float] = (0, 0)
    parameters: dict[str, Any] = {}
    credentials: dict[str, Any] = {}
    webhook_id: str | None = Field(None, alias="webhookId", max_length=200)
    disabled: bool = False
    on_error: OnError = Field("stopWorkflow", alias="onError")
    retry_on_fail: bool = Field(False, alias="retryOnFail")
    max_tries: int = Field(3, alias="maxTries")
    wait_between_tries: int = Field(1000, alias="waitBetweenTries")
    always_output_data: bool = Field(False, alias="alwaysOutputData")
    execute_once: bool = Field(False, alias="executeOnce")

    @model_validator(mode="before")
    @classmethod
    def _as_of_old(cls, data: Any) -> Any:
        """A null counts as not given, `continueOnFail` is an old form of `onError`, the name stands in for an id."""
        if not isinstance(data, dict):
            return data
        given = {key: value for key, value in data.items() if value is not None}
        if given.get("continueOnFail") is True:
            given.setdefault("onError", "continueRegularOutput")
        if not given.get("id") and isinstance(name := given.get("name"), str):
            given["id"] = name[:200]
        return given

    @property
    def tries(self) -> int:
        """n8n's bounds: 2 to 5 where it retries at all."""
        return min(max(self.max_tries, 2), 5) if self.retry_on_fail else 1

    @property
    def wait_s(self) -> float:
        return min(max(self.wait_between_tries, 0), 5000) / 1000


@dataclass(frozen=True, slots=True)
class Connection:
    """Output `output` of `source` leads to input `input` of `target`."""

    source: str
    kind: ConnectionType
    output: int
    target: str
    input: int
