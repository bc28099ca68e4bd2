"""What a workflow's memories hold of a session on other servers: Redis, Postgres, MongoDB that credentials name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from convoq.contract.connections import MEMORY, ConnectionType
from convoq.contract.execution import ExecutionInfo
from convoq.contract.items import Item
from convoq.engine.run import WorkflowRun
from convoq.errors import NodeFailed

if TYPE_CHECKING:
    from convoq.contract.services import Services
    from convoq.engine.workflow import Workflow


async def clear_session(workflow: Workflow, session_id: str, services: Services) -> list[str]:
    """Clear every memory of the workflow for that session; what could not be cleared, and why, one line a node.

    A memory whose key is made of more than the session id cannot be found again from it.
    """
    info = ExecutionInfo("", 0, workflow.id, workflow.name, session_id, "production", services.clock())
    run = WorkflowRun(workflow, info, services)
    item = Item({"sessionId": session_id, "chatInput": ""})
    consumers = {edge.target for edge in workflow.connections if edge.kind is ConnectionType.MEMORY}
    failed: dict[str, str] = {}
    for consumer in sorted(consumers):
        try:
            memories = await run.context(consumer, [item]).supplied(MEMORY)
        except NodeFailed as error:
            failed[str(error.details.get("node", consumer))] = error.message
            continue
        for memory in memories:
            try:
                await memory.value.clear()
            except NodeFailed as error:
                failed[memory.node.name] = error.message
    return [f"{node}: {message}" for node, message in failed.items()]
