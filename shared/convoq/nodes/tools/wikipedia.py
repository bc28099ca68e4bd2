"""Wikipedia: what it says of a subject, the beginnings of the articles that fit best."""

from __future__ import annotations

from functools import partial
from typing import Any

from convoq.contract.connections import ConnectionType
from convoq.contract.context import Context
from convoq.contract.node import SubNode
from convoq.contract.parameters import Parameters
from convoq.contract.tool import Tool
from convoq.nodes.tools.simple import TextTool
from convoq.nodes.tools.web import get_json

URL = "https://en.wikipedia.org/w/api.php"
ARTICLES, CHARS = 3, 4000
DESCRIPTION = "Look a subject up in Wikipedia: people, places, companies, history, facts. Give a search query."


class WikipediaNode(SubNode[Parameters]):
    type = "@n8n/n8n-nodes-langchain.toolWikipedia"
    versions = (1, 1)
    supplies = ConnectionType.TOOL
    url = URL

    async def supply(self, ctx: Context[Parameters], item_index: int) -> Tool:
        return TextTool(ctx.node.name, DESCRIPTION, partial(_look_up, ctx, self.url), about="a search query")


async def _look_up(ctx: Context[Any], url: str, query: str) -> str:
    asked = {
        "action": "query",
        "generator": "search",
        "gsrsearch": query[:300],
        "gsrlimit": str(ARTICLES),
        "prop": "extracts",
        "explaintext": "1",
        "exintro": "1",
        "exlimit": str(ARTICLES),
        "format": "json",
        "formatversion": "2",
    }
    found = await get_json(ctx, "Wikipedia", url, asked)
    pages = found.get("query", {}).get("pages", []) if isinstance(found, dict) else []
    texts = [
        f"Page: {page.get('title')}\nSummary: {page.get('extract', '')}"
        for page in sorted(pages, key=lambda page: page.get("index", 0))
    ]
    return "\n\n".join(texts)[:CHARS] or f"Wikipedia has nothing on {query[:200]!r}."
