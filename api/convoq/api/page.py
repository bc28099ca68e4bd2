"""The hosted chat page: one HTML document that needs nothing but itself.

Styles, scripts and favicon are inlined, and the policy in `page_headers` lets the browser run and load nothing else:
what a model or a visitor writes can reach the page only as text. The files are in `static/`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from html import escape
from pathlib import Path
from string import Template

STATIC = Path(__file__).with_name("static")
SCRIPTS = (
    "vendor/markdown-it.umd.min.js",
    "markdown.js",
    "storage.js",
    "exchange.js",
    "thread.js",
    "composer.js",
    "chat.js",
)
IN_SCRIPT = str.maketrans({c: f"\\u{ord(c):04x}" for c in "<>&\u2028\u2029"})


@dataclass(frozen=True, slots=True)
class PageConfig:
    """What a Chat Trigger says of its page.

    `webhook_url` is where messages are POSTed, on the page's own origin: best a path. What comes before its `/webhook/`
    is taken for the base of `/executions/{id}/stream` and `/executions/{id}/stop`. `max_chars` is the longest message.
    `nonce` must be new for each answer, and the same in `page_headers`.
    """

    title: str
    subtitle: str
    placeholder: str
    webhook_url: str
    nonce: str
    initial_messages: Sequence[str] = ()
    load_previous: bool = False
    custom_css: str = ""
    max_chars: int = 100_000


def chat_page(config: PageConfig) -> str:
    nonce = escape(config.nonce)
    data = {
        "webhookUrl": config.webhook_url,
        "initialMessages": [message for message in config.initial_messages if message.strip()],
        "loadPrevious": config.load_previous,
        "maxChars": config.max_chars,
    }
    return _template().substitute(
        nonce=nonce,
        title=escape(config.title),
        subtitle=escape(config.subtitle),
        placeholder=escape(config.placeholder),
        theme="themed" if config.custom_css.strip() else "",
        config=json.dumps(data).translate(IN_SCRIPT),
        css=_read("chat.css"),
        custom_css=re.sub(r"</(?=style)", r"<\\/", config.custom_css, flags=re.IGNORECASE),
        scripts="\n".join(f'<script nonce="{nonce}">\n{_read(name)}</script>' for name in SCRIPTS),
    )


def page_headers(nonce: str) -> dict[str, str]:
    """Headers of the page's answer. Any site may embed a chat; no script but ours, and no HTML from text, ever runs."""
    policy = (
        "default-src 'none'",
        f"script-src 'nonce-{nonce}'",
        f"style-src 'nonce-{nonce}'",
        "connect-src 'self'",
        "img-src 'self' data:",
        "font-src 'self' data:",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors *",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    )
    return {
        "Content-Security-Policy": "; ".join(policy),
        "X-Content-Type-Options": "nosniff",
        "Referrer-Policy": "no-referrer",
        "Cache-Control": "no-store",
    }


@cache
def _template() -> Template:
    return Template(_read("chat.html"))


@cache
def _read(name: str) -> str:
    return (STATIC / name).read_text(encoding="utf-8")
