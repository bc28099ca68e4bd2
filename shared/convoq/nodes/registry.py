"""The node types there are. To add one: its file, and its class here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from convoq.nodes.agent import AgentNode
from convoq.nodes.base import AnyNode
from convoq.nodes.chat_history import ChatHistoryNode
from convoq.nodes.chat_trigger import ChatTriggerNode, ManualChatTriggerNode
from convoq.nodes.edit_fields import EditFieldsNode
from convoq.nodes.lm_chat_mock import MockChatModelNode
from convoq.nodes.lm_chat_openai import OpenAIChatModelNode
from convoq.nodes.memory_buffer_window import MotorheadMemoryNode, SimpleMemoryNode, XataMemoryNode, ZepMemoryNode
from convoq.nodes.memory_manager import MemoryManagerNode
from convoq.nodes.memory_mongodb_chat import MongoChatMemoryNode
from convoq.nodes.memory_postgres_chat import PostgresChatMemoryNode
from convoq.nodes.memory_redis_chat import RedisChatMemoryNode
from convoq.nodes.memory_summary import SummaryMemoryNode
from convoq.nodes.memory_token_window import TokenWindowMemoryNode
from convoq.nodes.memory_whole import WholeMemoryNode
from convoq.nodes.memory_window import WindowMemoryNode
from convoq.nodes.tool_calculator import CalculatorNode

NODES: tuple[type[AnyNode], ...] = (
    ChatTriggerNode,
    ManualChatTriggerNode,
    AgentNode,
    OpenAIChatModelNode,
    MockChatModelNode,
    SimpleMemoryNode,
    RedisChatMemoryNode,
    PostgresChatMemoryNode,
    MongoChatMemoryNode,
    ZepMemoryNode,
    XataMemoryNode,
    MotorheadMemoryNode,
    WindowMemoryNode,
    SummaryMemoryNode,
    TokenWindowMemoryNode,
    WholeMemoryNode,
    MemoryManagerNode,
    ChatHistoryNode,
    CalculatorNode,
    EditFieldsNode,
)


def by_type(nodes: Iterable[type[AnyNode]]) -> Mapping[str, AnyNode]:
    """One node of each class, under its type name and the aliases of that."""
    return {name: made for node in nodes for made in [node()] for name in (node.type, *node.aliases)}


REGISTRY = by_type(NODES)
