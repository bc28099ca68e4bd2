"""The node types there are. To add one: its file, and its class here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from convoq.nodes.agent import AgentNode
from convoq.nodes.base import AnyNode
from convoq.nodes.chat_trigger import ChatTriggerNode, ManualChatTriggerNode
from convoq.nodes.edit_fields import EditFieldsNode
from convoq.nodes.lm_chat_mock import MockChatModelNode
from convoq.nodes.lm_chat_openai import OpenAIChatModelNode
from convoq.nodes.memory_buffer_window import SimpleMemoryNode
from convoq.nodes.tool_calculator import CalculatorNode

NODES: tuple[type[AnyNode], ...] = (
    ChatTriggerNode,
    ManualChatTriggerNode,
    AgentNode,
    OpenAIChatModelNode,
    MockChatModelNode,
    SimpleMemoryNode,
    CalculatorNode,
    EditFieldsNode,
)


def by_type(nodes: Iterable[type[AnyNode]]) -> Mapping[str, AnyNode]:
    """One node of each class, under its type name and the aliases of that."""
    return {name: made for node in nodes for made in [node()] for name in (node.type, *node.aliases)}


REGISTRY = by_type(NODES)
