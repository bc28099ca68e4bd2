"""SerpAPI: a web search, the answer box and the first results as text."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

from convoq.contract.connections import ConnectionType
from convoq.contract.context import Context
from convoq.contract.node import SubNode
from convoq.contract.parameters import Parameters
from convoq.contract.tool import Tool
from convoq.nodes.tools.simple import TextTool
from convoq.nodes.tools.web import get_json

URL = "https://serpapi.com/search.json"
DESCRIPTION = (
    "Search the web with Google. Use it for current events and facts that you do not know. Give a search query."
)
RESULTS = 8


class SerpApiOptions(Parameters):
    gl: str = "us"
    hl: str = "en"
    device: str = "desktop"
    google_domain: str = "google.com"
    no_cache: bool = False


class SerpApiParameters(Parameters):
    options: SerpApiOptions = SerpApiOptions()


class SerpApiNode(SubNode[SerpApiParameters]):
    type = "@n8n/n8n-nodes-langchain.toolSerpApi"
    versions = (1, 1)
    parameters_class = SerpApiParameters
    supplies = ConnectionType.TOOL
    credentials = ("serpApi",)
    url = URL

    async def supply(self, ctx: Context[SerpApiParameters], item_index: int) -> Tool:
        options = (await ctx.parameters(item_index)).options
        key = str((await ctx.needed_credential("serpApi")).get("apiKey", ""))
        asked = {name: str(value) for name, value in options.model_dump().items() if not isinstance(value, bool)}
        asked |= {"api_key": key, "engine": "google", "no_cache": str(options.no_cache).lower()}
        return TextTool(ctx.node.name, DESCRIPTION, partial(_search, ctx, self.url, asked), about="a search query")


async def _search(ctx: Context[Any], url: str, asked: dict[str, str], query: str) -> str:
    found = await get_json(ctx, "SerpAPI", url, {**asked, "q": query[:500]})
    if not isinstance(found, dict):
        return "No good search result found"
    parts = [
        json.dumps(found[name], ensure_ascii=False) for name in ("answer_box", "knowledge_graph") if found.get(name)
    ]
    for result in found.get("organic_results", [])[:RESULTS]:
        parts.append("\n".join(str(result[name]) for name in ("title", "link", "snippet") if result.get(name)))
    return "\n\n".join(parts) or "No good search result found"
