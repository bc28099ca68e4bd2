"""How an agent with an output parser gives its answer: by a tool that takes it in the right form, or in words."""

from __future__ import annotations

import json
from typing import Any

from convoq.contract.model import ToolSpec
from convoq.contract.parser import OutputParser
from convoq.models.hearing import Reply

NAME = "format_final_json_response"
"""n8n's name of that tool."""
TOLD = (
    f"For your final answer to the user you MUST call the tool `{NAME}` with your complete answer, in the form of its "
    "schema. Do not answer in words."
)


def final_tool(parser: OutputParser) -> ToolSpec | None:
    """None where the parser reads words."""
    if parser.schema is None:
        return None
    description = "Gives your final answer to the user, in the form in which it is wanted. Call it once, at the end."
    return ToolSpec(NAME, description, parser.schema)


def instructions(parser: OutputParser) -> str:
    return parser.instructions if parser.schema is None else TOLD


async def final_value(parser: OutputParser, reply: Reply) -> Any:
    """What the parser makes of the answer. Raises `OutputNotParsed`."""
    for call in reply.calls:
        if call.name == NAME:
            return await parser.parse(call.arguments)
    return await parser.parse(reply.text)


def is_final(reply: Reply) -> bool:
    return not reply.calls or any(call.name == NAME for call in reply.calls)


def as_text(value: Any) -> str:
    """As the memory keeps it."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
