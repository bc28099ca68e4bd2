"""A main node as a tool: a model gives what `$fromAI` asks for in its parameters, and is told what items come out."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from convoq.contract.connections import ConnectionType
from convoq.contract.context import Context
from convoq.contract.from_ai import Placeholder, placeholders_in, schema_of
from convoq.contract.model import ToolSpec
from convoq.contract.node import MainNode, SubNode
from convoq.contract.parameters import Parameters
from convoq.contract.tool import Tool, tool_name
from convoq.errors import ToolFailed

SUFFIX = "Tool"
"""What n8n adds to a node type's name where the node is a tool."""


class NodeTool(SubNode[Parameters]):
    """`inner` is the node that runs. Its description is the parameter `toolDescription`, or made of what it does."""

    supplies = ConnectionType.TOOL

    def __init__(
        self,
        inner: MainNode[Any],
        *,
        type: str = "",
        title: str = "",
        versions: tuple[float, float] | None = None,
    ) -> None:
        self.inner = inner
        for name, value in {
            "type": type or inner.type + SUFFIX,
            "title": title or inner.title,
            "versions": versions or inner.versions,
            "parameters_class": inner.parameters_class,
            "accepts": inner.accepts,
            "credentials": inner.credentials,
        }.items():
            setattr(self, name, value)  # of this one, as its inner node has it

    async def supply(self, ctx: Context[Parameters], item_index: int) -> Tool:
        given = ctx.node.parameters
        placeholders = placeholders_in(given)
        described = given.get("toolDescription")
        if isinstance(described, str) and described.strip() and given.get("descriptionType") != "auto":
            description = str(await ctx.evaluate(described, item_index))
        else:
            description = _described(self.inner, given)
        spec = ToolSpec(tool_name(ctx.node.name), description, schema_of(placeholders))
        return _Call(spec, self.inner, ctx, item_index, placeholders)


class _Call:
    def __init__(
        self,
        spec: ToolSpec,
        inner: MainNode[Any],
        ctx: Context[Parameters],
        item_index: int,
        placeholders: list[Placeholder],
    ) -> None:
        self.spec = spec
        self.pure = inner.pure
        self._inner = inner
        self._ctx = ctx
        self._item_index = item_index
        self._placeholders = placeholders

    async def call(self, arguments: Mapping[str, Any]) -> str:
        given: dict[str, Any] = {}
        for one in self._placeholders:
            if arguments.get(one.key) is not None:
                given[one.key] = arguments[one.key]
            elif one.required:
                raise ToolFailed(f"argument {one.key!r} is missing")
            else:
                given[one.key] = one.default
        outputs = await self._ctx.invoke(self._inner, given, self._item_index)
        items = [item.json for item in (outputs[0] if outputs else [])]
        return json.dumps(items, ensure_ascii=False, default=str)


def _described(inner: MainNode[Any], parameters: Mapping[str, Any]) -> str:
    """As far as its parameters tell what it does: operation, resource, name."""
    doing = " ".join(str(parameters[key]) for key in ("operation", "resource") if isinstance(parameters.get(key), str))
    name = inner.title or inner.type.rpartition(".")[2]
    return f"{doing} in {name}" if doing else name
