"""`loadPreviousSession`: what a returning visitor has said and was told, without starting an execution."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from starlette.responses import JSONResponse, Response

from convoq.api.body import ChatRequest
from convoq.api.state import State
from convoq.api.triggers import Chat
from convoq.contract.connections import MEMORY
from convoq.contract.execution import ExecutionInfo
from convoq.contract.items import Item
from convoq.contract.memory import Memory, Turn
from convoq.engine.run import WorkflowRun


async def previous_session(state: State, chat: Chat, message: ChatRequest) -> Response:
    """`{"data": [...]}` in the form that the @n8n/chat widget reads, empty where the trigger does not load sessions."""
    turns: list[Turn] = []
    if chat.trigger.parameters.options.load_previous_session == "memory":
        memory = await _memory(state, chat, message)
        turns = [] if memory is None else list(await memory.load())
    return JSONResponse({"data": [shown for turn in turns for shown in _shown(turn)]})


async def _memory(state: State, chat: Chat, message: ChatRequest) -> Memory | None:
    """The memory connected to the trigger, else that of the node after it."""
    workflow, trigger = chat.workflow, chat.trigger.node.name
    info = ExecutionInfo("", 0, workflow.id, workflow.name, message.session_id, "production", state.services.clock())
    run = WorkflowRun(workflow, info, state.services)
    following = [edge.target for edge in workflow.connections if edge.source == trigger]
    for name in (trigger, *following):
        if supplied := await run.context(name, [Item(message.item)]).supplied(MEMORY):
            memory: Memory = supplied[0].value
            return memory
    return None


def _shown(turn: Turn) -> Iterator[dict[str, Any]]:
    """LangChain's serialised messages. What tools were asked and answered, and what is hidden, is not the visitor's
    business."""
    no_tools: dict[str, Any] = {"tool_calls": [], "invalid_tool_calls": []}
    said = (("HumanMessage", turn.user, {}), ("AIMessage", turn.answer, no_tools)) if not turn.hidden else ()
    for kind, content, more in said:
        if not content:
            continue
        yield {
            "lc": 1,
            "type": "constructor",
            "id": ["langchain_core", "messages", kind],
            "kwargs": {"content": content, **more, "additional_kwargs": {}, "response_metadata": {}},
        }
