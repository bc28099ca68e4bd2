"""AI Agent Tool: an agent as a tool of another one."""

from __future__ import annotations

from convoq.contract.node_tool import NodeTool
from convoq.nodes.agents.agent import AgentNode


class AgentToolNode(NodeTool):
    """With a model, a memory and tools of its own. Its answer goes to the agent that called it, not to the chat."""

    def __init__(self) -> None:
        name = "@n8n/n8n-nodes-langchain.agentTool"
        super().__init__(AgentNode(), type=name, title="AI Agent Tool", versions=(1, 3))
