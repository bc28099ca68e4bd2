"""Item List Output Parser: an answer as a list, split at a separator."""

from __future__ import annotations

from convoq.contract.connections import ConnectionType
from convoq.contract.context import Context
from convoq.contract.node import SubNode
from convoq.contract.parameters import Parameters, parameter
from convoq.contract.parser import OutputParser
from convoq.errors import OutputNotParsed


class ListOptions(Parameters):
    number_of_items: int = parameter(-1, ge=-1, le=10_000)
    separator: str = "\\n"


class ListParameters(Parameters):
    options: ListOptions = ListOptions()


class ItemListParserNode(SubNode[ListParameters]):
    type = "@n8n/n8n-nodes-langchain.outputParserItemList"
    versions = (1, 1)
    parameters_class = ListParameters
    supplies = ConnectionType.OUTPUT_PARSER

    async def supply(self, ctx: Context[ListParameters], item_index: int) -> OutputParser:
        options = (await ctx.parameters(item_index)).options
        return ItemListParser(options.number_of_items, options.separator.replace("\\n", "\n"))


class ItemListParser:
    schema = None

    def __init__(self, count: int, separator: str) -> None:
        self._count = count
        self._separator = separator or "\n"

    @property
    def instructions(self) -> str:
        many = f"{self._count} " if self._count > 0 else ""
        between = "a line break" if self._separator == "\n" else repr(self._separator)
        return f"Answer with a list of {many}items and nothing else, separated by {between}."

    async def parse(self, text: str) -> list[str]:
        found = [piece.strip() for piece in text.split(self._separator) if piece.strip()]
        if 0 < self._count != len(found):
            if len(found) < self._count:
                raise OutputNotParsed(f"the answer has {len(found)} items, and not {self._count}: {text[:200]!r}")
            found = found[: self._count]
        return found
