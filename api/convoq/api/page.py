"""The hosted chat page: one HTML document that needs nothing but itself.

Styles, scripts and favicon are inlined, and the policy in its headers lets the browser run and load nothing else: what
a model or a visitor writes can reach the page only as text. The files are in `static/`.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import cache, lru_cache
from html import escape
from pathlib import Path
from string import Template

from convoq.api.document import Document, Inlined

STATIC = Path(__file__).with_name("static")
SCRIPTS = (
    "vendor/markdown-it.min.js",
    "markdown.js",
    "storage.js",
    "exchange.js",
    "thread.js",
    "composer.js",
    "chat.js",
)
IN_SCRIPT = str.maketrans({c: f"\\u{ord(c):04x}" for c in "<>&\u2028\u2029"})
KEPT = 100
"""Pages of so many chats are kept, compressed: less than five megabytes."""


@dataclass(frozen=True, slots=True)
class PageConfig:
    """What a Chat Trigger says of its page.

    `webhook_url` is where messages are POSTed, on the page's own origin: best a path. What comes before its `/webhook/`
    is taken for the base of `/executions/{id}/stream` and `/executions/{id}/stop`. `max_chars` is the longest message.
    """

    title: str
    subtitle: str
    placeholder: str
    webhook_url: str
    initial_messages: tuple[str, ...] = ()
    load_previous: bool = False
    custom_css: str = ""
    max_chars: int = 100_000


@lru_cache(KEPT)
def chat_page(config: PageConfig) -> Document:
    """Any site may embed it; no script but ours, and no HTML from text, ever runs."""
    inlined = Inlined()
    data = {
        "webhookUrl": config.webhook_url,
        "initialMessages": [message for message in config.initial_messages if message.strip()],
        "loadPrevious": config.load_previous,
        "maxChars": config.max_chars,
    }
    # As a browser reads it: the policy names the hash of that.
    own_css = re.sub(r"\r\n?", "\n", config.custom_css).replace("\0", "\ufffd")
    own_css = re.sub(r"</(?=style)", r"<\\/", own_css, flags=re.IGNORECASE)
    text = _template("chat.html").substitute(
        title=escape(config.title),
        subtitle=escape(config.subtitle),
        placeholder=escape(config.placeholder),
        theme="themed" if config.custom_css.strip() else "",
        config=json.dumps(data).translate(IN_SCRIPT),
        styles=inlined.style(read("chat.css")) + inlined.style(own_css),
        scripts="\n".join(inlined.script(read(name)) for name in SCRIPTS),
    )
    return Document.of(text, "text/html", inlined.headers(frame_ancestors="*"))


@cache
def _template(name: str) -> Template:
    return Template(read(name))


@cache
def read(name: str) -> str:
    """The text of a file in `static/`."""
    return (STATIC / name).read_text(encoding="utf-8")
