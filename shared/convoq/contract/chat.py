"""The door by which a chat comes in, as a workflow declares it."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from convoq.contract.context import RunContext
from convoq.contract.items import Outputs
from convoq.contract.node import MainNode
from convoq.contract.parameters import Parameters
from convoq.settings import WhenBusy

ResponseMode = Literal["lastNode", "onReceived", "responseNode", "responseNodes", "streaming"]


class ChatTriggerOptions(Parameters):
    response_mode: ResponseMode | None = None
    allowed_origins: str = "*"
    allow_file_uploads: bool = False
    allowed_files_mime_types: str = "*"
    load_previous_session: Literal["notSupported", "memory", "manually"] = "notSupported"
    require_session_id: bool = False
    """Ours: a message without `sessionId` is refused; without it such messages share the session `default`."""
    when_busy: WhenBusy | None = None
    """Ours: what a second message of a session does while the first runs; the setting CONVOQ_WHEN_BUSY otherwise."""
    merge_window: float | None = Field(None, ge=0, le=60)
    """Ours: seconds that a message waits to be joined by others, with `merge`; else CONVOQ_MERGE_WINDOW_S."""
    cancel_on_disconnect: bool = False
    """Ours: a client that leaves stops its execution."""
    error_message: str = Field("", max_length=2000)
    """Ours: what clients read of a failure, in place of convoq's sentence; `{executionId}` stands for the id."""
    input_placeholder: str = "Type your message…"
    title: str = "Chat"
    subtitle: str = ""
    show_welcome_screen: bool = False
    get_started: str = "New conversation"
    custom_css: str = ""


class ChatTriggerParameters(Parameters):
    public: bool = False
    mode: Literal["hostedChat", "webhook"] = "hostedChat"
    path: str = Field("", max_length=200)
    authentication: Literal["none", "basicAuth", "n8nUserAuth"] = "none"
    initial_messages: str = "Hello! How can I help you?"
    available_in_chat: bool = False
    top_response_mode: ResponseMode | None = Field(None, alias="responseMode")
    options: ChatTriggerOptions = ChatTriggerOptions()

    @property
    def response_mode(self) -> ResponseMode:
        """As the options say, else the parameter itself, else n8n's default."""
        default: ResponseMode = "streaming" if self.available_in_chat else "lastNode"
        return self.options.response_mode or self.top_response_mode or default

    @property
    def greetings(self) -> list[str]:
        """The first messages of the chat page, one a line."""
        return [line for line in self.initial_messages.splitlines() if line.strip()]


class ChatTrigger(MainNode[ChatTriggerParameters]):
    """A trigger that a chat message starts: the message is the item that comes out."""

    parameters_class = ChatTriggerParameters
    is_trigger = True

    async def run(self, ctx: RunContext[Any]) -> Outputs:
        return [list(ctx.items)]
