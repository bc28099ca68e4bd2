"""Chat Trigger: a chat message starts an execution here, and is the item that comes out."""

from __future__ import annotations

from convoq.contract.chat import ChatTrigger
from convoq.contract.connections import ConnectionType


class ChatTriggerNode(ChatTrigger):
    type = "@n8n/n8n-nodes-langchain.chatTrigger"
    versions = (1, 1.5)
    accepts = {ConnectionType.MEMORY: False}  # noqa: RUF012


class ManualChatTriggerNode(ChatTriggerNode):
    """The older sibling without parameters."""

    title = "Chat Trigger (old)"
    type = "@n8n/n8n-nodes-langchain.manualChatTrigger"
    versions = (1, 1.1)
