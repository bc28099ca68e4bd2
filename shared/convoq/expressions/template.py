"""What a parameter's text is made of: `=` makes it a template, `{{ … }}` in it are expressions."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

import msgspec

from convoq.expressions.lookups import guessed
from convoq.expressions.paths import Read, plain

_OPEN = re.compile(r"(?<!\\)\{\{")
_CLOSE = re.compile(r"(?<!\\)\}\}")
_MOST_NEEDS = 64


@dataclass(frozen=True, slots=True)
class Template:
    """Texts and expressions in turn; one part alone keeps its type.

    `parts` are texts and readers where JavaScript is not needed, else None. `request` is the template as the sandbox
    takes it, `needs` the keys of what it asked for until now.
    """

    parts: tuple[str | Read, ...] | None
    request: msgspec.Raw
    needs: set[str]

    def note(self, missing: list[str]) -> None:
        if len(self.needs) < _MOST_NEEDS:
            self.needs.update(missing)


@lru_cache(maxsize=4096)
def template(text: str) -> Template:
    """Of a text that begins with `=`. As in n8n an expression ends with the first `}}` (`\\}}` is one in it) or with
    the text, and `\\{{` begins none."""
    split = list(_split(text))
    readers = [part if isinstance(part, str) else plain(part["code"]) for part in split]
    parts = tuple(part for part in readers if part is not None)
    return Template(parts if len(parts) == len(split) else None, msgspec.Raw(msgspec.json.encode(split)), guessed(text))


def _split(text: str) -> list[str | dict[str, str]]:
    parts: list[str | dict[str, str]] = []
    at = 1
    while opened := _OPEN.search(text, at):
        if opened.start() > at:
            parts.append(text[at : opened.start()])
        closed = _CLOSE.search(text, opened.end())
        end = closed.start() if closed else len(text)
        parts.append({"code": text[opened.end() : end].replace("\\}}", "}}").strip()})
        at = closed.end() if closed else len(text)
    if at < len(text) or not parts:
        parts.append(text[at:])
    return parts


def pieces(text: str) -> tuple[list[str], list[str]]:
    """The texts of a template, one more than it has expressions, and each expression as a template of its own."""
    texts, expressions = [], []
    at = 1
    while opened := _OPEN.search(text, at):
        texts.append(text[at : opened.start()])
        closed = _CLOSE.search(text, opened.end())
        at = closed.end() if closed else len(text)
        expressions.append(f"={text[opened.start() : at]}")
    return [*texts, text[at:]], expressions
