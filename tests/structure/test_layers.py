"""Which room may import which: from the ground up, and never in a circle."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from statistics import median

import pytest

ROOT = Path(__file__).parents[2]
LAYERS: tuple[frozenset[str], ...] = tuple(
    map(
        frozenset,
        (
            ("addresses",),
            ("errors", "ids", "protocol"),
            ("keys",),
            ("settings",),
            ("redis", "logs", "rq"),
            ("process", "presence"),
            ("contract",),
            ("expressions", "models", "memory", "retrieval", "egress"),
            ("engine", "nodes"),
            ("delivery", "credentials"),
            ("store",),
            ("api", "worker"),
            ("cli",),
        ),
    )
)
"""Each may import what is below it, and within itself; of one line only the same room."""
MAX_LINES = 400
MEDIAN_LINES = 150


def modules() -> Mapping[str, Path]:
    found = {}
    for top in ("api", "worker", "shared"):
        for path in (ROOT / top / "convoq").rglob("*.py"):
            parts = ("convoq", *path.relative_to(ROOT / top / "convoq").with_suffix("").parts)
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


MODULES = modules()


def imports(name: str) -> Iterator[str]:
    """The modules of convoq that a module imports, wherever in it, also where only types need them."""
    for node in ast.walk(ast.parse(MODULES[name].read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in MODULES)
        elif isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "convoq":
            for alias in node.names:
                longer = f"{node.module}.{alias.name}"
                yield longer if longer in MODULES else node.module


GRAPH = {name: {found for found in imports(name) if found != name} for name in MODULES}


def room(module: str) -> str:
    return module.split(".")[1]


def layer(module: str) -> int:
    return next(index for index, rooms in enumerate(LAYERS) if room(module) in rooms)


def test_no_circle_of_imports() -> None:
    try:
        TopologicalSorter(GRAPH).prepare()
    except CycleError as error:
        pytest.fail(" <- ".join(error.args[1]))


def test_every_room_has_its_layer() -> None:
    known = frozenset().union(*LAYERS)
    assert {room(name) for name in MODULES if "." in name} <= known


def test_rooms_import_only_what_lies_below() -> None:
    wrong = [
        f"{name} imports {target}"
        for name, targets in GRAPH.items()
        for target in targets
        if "." in target and room(target) != room(name) and layer(target) >= layer(name)
    ]
    assert not wrong, "\n".join(wrong)


def test_the_engine_and_the_nodes_do_not_know_each_other() -> None:
    for name, targets in GRAPH.items():
        assert not (room(name) == "engine" and any(room(target) == "nodes" for target in targets)), name
        assert not (room(name) == "nodes" and any(room(target) == "engine" for target in targets)), name


def test_each_room_says_what_it_is_for() -> None:
    for top in ("api", "worker", "shared"):
        for folder in (ROOT / top / "convoq").rglob("*"):
            if folder.is_dir() and any(folder.glob("*.py")):
                said = ast.get_docstring(ast.parse((folder / "__init__.py").read_text()))
                assert said, f"{folder} has no docstring in its __init__.py"


def test_files_are_short() -> None:
    lines = {path: len(path.read_text().splitlines()) for path in MODULES.values() if path.name != "__init__.py"}
    assert {path.name: count for path, count in lines.items() if count > MAX_LINES} == {}
    assert median(lines.values()) < MEDIAN_LINES
