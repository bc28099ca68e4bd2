"""What the document holds and what its headers forbid."""

from __future__ import annotations

import gzip
import json
import re
from base64 import b64encode
from dataclasses import replace
from hashlib import sha256
from html.parser import HTMLParser

import pytest

from convoq.api.document import Document
from convoq.api.page import SCRIPTS, STATIC, PageConfig, chat_page

PLAIN = PageConfig(title="Desk", subtitle="Ask", placeholder="Type", webhook_url="/webhook/x/chat")
HOSTILE = "</script><script>alert(1)</script>\"'<!-- & \u2028\u2029 $title"


def text_of(page: Document) -> str:
    return gzip.decompress(page.packed).decode()


def policy_of(page: Document) -> dict[str, str]:
    return dict(part.split(" ", 1) for part in page.headers["Content-Security-Policy"].split("; "))


class Seen(HTMLParser):
    def __init__(self, document: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[str, list[str]] = {}
        self.elements: list[tuple[str, str]] = []
        self._inside = ""
        self.feed(document)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._inside = tag
        if tag in ("script", "style"):
            self.elements.append((tag, ""))

    def handle_endtag(self, tag: str) -> None:
        self._inside = ""

    def handle_data(self, data: str) -> None:
        self.texts.setdefault(self._inside, []).append(data)
        if self._inside in ("script", "style"):
            tag, text = self.elements[-1]
            self.elements[-1] = (tag, text + data)

    def config(self) -> dict[str, object]:
        raw = next(text for text in self.texts["script"] if '"webhookUrl"' in text and text.startswith("{"))
        parsed: dict[str, object] = json.loads(raw)
        return parsed


def test_hostile_texts_stay_texts() -> None:
    clean = Seen(text_of(chat_page(PLAIN)))
    config = replace(PLAIN, title=HOSTILE, subtitle=HOSTILE, placeholder=HOSTILE, initial_messages=(HOSTILE, " "))
    document = text_of(chat_page(replace(config, webhook_url=f"/webhook/{HOSTILE}")))
    seen = Seen(document)
    assert [tag for tag, _ in seen.tags] == [tag for tag, _ in clean.tags], "a text made elements"
    assert seen.config()["initialMessages"] == [HOSTILE], "not the same, or a blank one was kept"
    assert seen.config()["webhookUrl"] == f"/webhook/{HOSTILE}"
    assert next(attrs for tag, attrs in seen.tags if tag == "textarea")["placeholder"] == HOSTILE
    assert "alert(1)</script>" not in document


@pytest.mark.parametrize("closing", ["</style>", "</STYLE >", "</style\n>"])
def test_custom_css_cannot_leave_its_element(closing: str) -> None:
    css = f"body {{ color: red }} {closing}<script>alert(1)</script>"
    document = text_of(chat_page(replace(PLAIN, custom_css=css)))
    assert [tag for tag, _ in Seen(document).tags] == [tag for tag, _ in Seen(text_of(chat_page(PLAIN))).tags]
    assert "body { color: red }" in document
    assert '<html lang="en" class="themed">' in document


def test_the_document_needs_nothing_but_itself() -> None:
    document = text_of(chat_page(PLAIN))
    seen = Seen(document)
    for tag, attrs in seen.tags:
        for name in ("src", "srcset", "href", "action", "data"):
            value = attrs.get(name)
            assert value is None or value.startswith("data:"), f"<{tag} {name}={value}>"
    for style in seen.texts["style"]:
        assert not re.search(r"@import|url\(", style)
    assert "sourceMappingURL" not in document  # a browser's developer tools would go and look for it
    assert not re.search(r"\$\w+\b", re.sub(r"<script.*?</script>", "", document, flags=re.S)), "a hole in the template"


def test_every_script_and_style_is_named_by_its_hash_in_the_policy() -> None:
    css = "body { color: red }\r\n.chat-header { color: blue }\r</style>\0"  # a browser reads all line ends as \n
    page = chat_page(replace(PLAIN, custom_css=css))
    seen, policy = Seen(text_of(page)), policy_of(page)
    for tag, text in seen.elements:
        if text.startswith("{") and '"webhookUrl"' in text:
            continue  # data, never run
        digest = b64encode(sha256(text.encode()).digest()).decode()
        assert f"'sha256-{digest}'" in policy[f"{tag}-src"].split()
        assert "\r" not in text and "\0" not in text
    assert [tag for tag, _ in seen.elements].count("script") == len(SCRIPTS) + 1
    assert len(policy["style-src"].split()) == 2
    for tag, attrs in seen.tags:
        assert not any(name.startswith("on") or name == "style" for name in attrs), f"inline code at <{tag} {attrs}>"


def test_scripts_can_be_inlined() -> None:
    for name in SCRIPTS:
        text = (STATIC / name).read_text(encoding="utf-8")
        assert not re.search(r"</?script", text, re.I), f"{name} would end, or nest in, its own element"
        assert "innerHTML" not in text, name


def test_vendored_code_keeps_its_licence() -> None:
    assert "Vitaly Puzrin" in text_of(chat_page(PLAIN))
    assert "Permission is hereby granted" in (STATIC / "vendor" / "markdown-it.LICENSE").read_text(encoding="utf-8")


def test_headers_forbid_all_but_our_own() -> None:
    page = chat_page(PLAIN)
    policy = policy_of(page)
    for kind in ("script-src", "style-src"):
        assert re.fullmatch(r"('sha256-[\w+/]{43}='( |$))+", policy.pop(kind))
    assert policy == {
        "default-src": "'none'",
        "connect-src": "'self'",
        "img-src": "'self' data:",
        "font-src": "'self' data:",
        "base-uri": "'none'",
        "form-action": "'none'",
        "frame-ancestors": "*",
        "require-trusted-types-for": "'script'",
        "trusted-types": "'none'",
    }
    assert page.headers["X-Content-Type-Options"] == "nosniff"
    assert page.headers["Referrer-Policy"] == "no-referrer"
    assert page.headers["Cache-Control"] == "no-cache"


def test_the_page_is_small_on_the_wire() -> None:
    assert len(chat_page(PLAIN).packed) < 50_000
