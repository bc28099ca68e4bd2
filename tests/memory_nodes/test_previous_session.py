"""What a returning visitor is shown of a memory: not what was hidden, no system messages, no summary."""

from __future__ import annotations

from typing import Any

from tests.stack import Stack, chat_workflow

LC = "@n8n/n8n-nodes-langchain"


def test_hidden_messages_are_not_shown(product: Stack) -> None:
    workflow: dict[str, Any] = chat_workflow("managed", loadPreviousSession="memory")
    values = [
        {"type": "user", "message": "hidden question", "hideFromUI": True},
        {"type": "ai", "message": "hidden answer", "hideFromUI": True},
        {"type": "system", "message": "Be brief."},
        {"type": "ai", "message": "Shown remark"},
    ]
    workflow["nodes"].append(
        {
            **{"name": "Manager", "type": f"{LC}.memoryManager", "typeVersion": 1.1, "position": [1, 1]},
            "parameters": {"mode": "insert", "insertMode": "override", "messages": {"messageValues": values}},
        }
    )
    connections = workflow["connections"]
    connections["Memory"]["ai_memory"][0].append({"node": "Manager", "type": "ai_memory", "index": 0})
    connections["Memory"]["ai_memory"][0].append({"node": "Chat", "type": "ai_memory", "index": 0})
    connections["Chat"]["main"][0][0]["node"] = "Manager"
    connections["Manager"] = {"main": [[{"node": "AI Agent", "type": "main", "index": 0}]]}
    workflow["nodes"][1]["parameters"] = {"promptType": "define", "text": "={{ $('Chat').item.json.chatInput }}"}
    product.install(workflow)
    reply = product.say("managed", "my name is Ada", "returning")
    product.execution(reply.headers["x-execution-id"])
    body = {"action": "loadPreviousSession", "sessionId": "returning"}
    shown = product.request("POST", "/webhook/managed", body).json["data"]
    assert [message["kwargs"]["content"] for message in shown] == [
        *["Shown remark", "my name is Ada", "Nice to meet you, Ada."]
    ]
