"""What the documentation says of the node types, made from their classes."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

from convoq.contract.node import AnyNode, MainNode, SubNode
from convoq.nodes.registry import NODES, REGISTRY

INTRO = """# Node types

What convoq runs of its own. The types are n8n's full names, the versions their `typeVersion`; parameters are n8n's, by
their names. Made by `make docs`; `convoq nodes TYPE` shows one with its parameters.

| node | type and versions | what it is |
|---|---|---|
"""


def about(node: AnyNode) -> tuple[str, str]:
    """Its name and what it is, as its file's docstring begins: `Name: what it is.`"""
    opening = (inspect.getdoc(inspect.getmodule(type(node))) or "").partition("\n\n")[0]
    name, _, said = " ".join(opening.split()).partition(": ")
    return node.title or name, said.replace("|", "\\|")


def versions(node: AnyNode) -> str:
    low, high = node.versions
    return f"{low:g}" if low == high else f"{low:g} – {high:g}"


def families() -> Iterator[tuple[str, list[AnyNode]]]:
    """Family -> its nodes, each once."""
    found: dict[str, dict[type[AnyNode], AnyNode]] = {}
    for name, place in NODES.items():
        node = REGISTRY[name]
        found.setdefault(place.partition(".")[0], {})[type(node)] = node
    for family, nodes in found.items():
        yield family, list(nodes.values())


def role(node: AnyNode) -> str:
    if isinstance(node, SubNode):
        return f"supplies `{node.supplies}`"
    return "trigger" if isinstance(node, MainNode) and node.is_trigger else ""


def markdown() -> str:
    rows = []
    for family, nodes in families():
        rows.append(f"| **{family}** | | |")
        for node in nodes:
            names = ", ".join(f"`{name}`" for name in (node.type, *node.aliases))
            name, what = about(node)
            rows.append(f"| {name} | {names} {versions(node)} | {'; '.join(filter(None, (role(node), what)))} |")
    return INTRO + "\n".join(rows) + "\n"
