"""The node types there are. To add one: its file, and its class here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from convoq.contract.node import AnyNode
from convoq.nodes.agents.agent import AgentNode
from convoq.nodes.data.edit_fields import EditFieldsNode
from convoq.nodes.memory.chat_history import ChatHistoryNode
from convoq.nodes.memory.manager import MemoryManagerNode
from convoq.nodes.memory.mongodb_chat import MongoChatMemoryNode
from convoq.nodes.memory.postgres_chat import PostgresChatMemoryNode
from convoq.nodes.memory.redis_chat import RedisChatMemoryNode
from convoq.nodes.memory.simple import MotorheadMemoryNode, SimpleMemoryNode, XataMemoryNode, ZepMemoryNode
from convoq.nodes.memory.summary import SummaryMemoryNode
from convoq.nodes.memory.token_window import TokenWindowMemoryNode
from convoq.nodes.memory.whole import WholeMemoryNode
from convoq.nodes.memory.window import WindowMemoryNode
from convoq.nodes.models.mock_chat import MockChatModelNode
from convoq.nodes.models.openai_chat import OpenAIChatModelNode
from convoq.nodes.tools.calculator import CalculatorNode
from convoq.nodes.triggers.chat_trigger import ChatTriggerNode, ManualChatTriggerNode

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
