"""What the sandbox asks for: the data of a run that an evaluation came upon, and only these."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

from convoq.contract.binary import shown
from convoq.contract.items import Item, origins
from convoq.errors import ExpressionFailed
from convoq.expressions.paths import MODES, at_place
from convoq.expressions.scope import Scope

_OWN = re.compile(r"\$(?:json|binary|data|thisItem)\b|\$input\s*\.\s*item\b")
_ALL = re.compile(r"\$input\s*\.\s*(?:first|last|all)\b|\$items\(\s*\)")
_NODE = re.compile(
    r"""\$\(\s*(["'])(?P<name>(?:(?!\1)[^\\\n])*)\1\s*\)\s*\.\s*"""
    r"""(?P<what>item|params|isExecuted|(?:first|last|all)\(\s*\))"""
)
_LONGEST_NEED = 1000
_OF_NODES = {"item": "paired", "params": "parameters", "isExecuted": "ran"}


def guessed(source: str) -> set[str]:
    """What a piece of JavaScript will most likely need. What is missing it asks for, what is too much does no harm."""
    needs = set()
    if _OWN.search(source):
        needs.add('["item"]')
    if _ALL.search(source):
        needs.add('["items"]')
    for match in _NODE.finditer(source):
        name, what = match["name"], match["what"].partition("(")[0]
        need = [_OF_NODES[what], name] if what in _OF_NODES else [what, name, None, None]
        needs.add(json.dumps(need, ensure_ascii=False, separators=(",", ":")))
    return needs


def known(needs: Iterable[str], scope: Scope, places: Sequence[int] | None = None) -> dict[str, dict[str, Any]]:
    """For each need (the JSON of a list, see `runtime/data.js`) its value `{"v"}`, or why there is none `{"e"}`.

    `places` are the items that the run is for, where it is not for the scope's alone.
    """
    of = (scope.item_index,) if places is None else places
    return {need: _outcome(partial(_found, need, scope, of)) for need in needs}


def _outcome(find: Callable[[], Any]) -> dict[str, Any]:
    try:
        return {"v": find()}
    except ExpressionFailed as error:
        return {"e": error.message}


def _found(need: str, scope: Scope, places: Sequence[int]) -> Any:
    match _key(need):
        case ["item"]:
            return _item(scope.items[scope.item_index]) if scope.item_index < len(scope.items) else None
        case ["items"]:
            return list(map(_item, scope.items))
        case ["paired", str() as name]:
            return {str(place): _outcome(partial(_paired, name, scope.at(place))) for place in places}
        case ["pairedAt", str() as name, int() as index] if 0 <= index < len(scope.items):
            return _paired(name, scope.at(index))
        case ["first", str() as name, output, run]:
            return _item(next(iter(scope.node_items(name, _index(output), _index(run))), None))
        case ["last", str() as name, output, run]:
            return _item(next(reversed(scope.node_items(name, _index(output), _index(run))), None))
        case ["all", str() as name, output, run]:
            return list(map(_item, scope.node_items(name, _index(output), _index(run))))
        case ["at", str() as name, int() as index]:
            return _item(at_place(scope, name, index))
        case ["parameters", None | str() as name]:
            return scope.node_parameters(name)
        case ["kept", None | str() as name]:
            return scope.node_kept(name)
        case ["ran", str() as name]:
            return scope.last_run_index(name) >= 0
        case ["lastRun", str() as name]:
            return scope.last_run_index(name)
        case [("previous" | "workflow" | "execution" | "variables" | "environment" | "fromAI") as part]:
            return _of_run(part, scope)
    raise ExpressionFailed(f"there is no {need}")


def _key(need: str) -> Any:
    """Untrusted: code may answer with anything."""
    try:
        return json.loads(need) if len(need) <= _LONGEST_NEED else None
    except ValueError:
        return None


def _of_run(part: str, scope: Scope) -> Any:
    match part:
        case "previous":
            name, output, run = scope.previous or (None, 0, 0)
            return {"name": name, "outputIndex": output, "runIndex": run}
        case "workflow":
            return {"active": scope.workflow.active, "id": scope.workflow.id, "name": scope.workflow.name}
        case "execution":
            return {"id": scope.execution.id, "mode": MODES[scope.execution.mode], "resumeUrl": scope.resume_url}
        case "variables":
            return scope.variables
        case "environment" if scope.environment is None:
            raise ExpressionFailed("access to environment variables is not allowed")
        case "environment":
            return scope.environment
    return scope.from_ai


def _paired(name: str, scope: Scope) -> Any:
    return _item(scope.node_item(name))


def _index(given: Any) -> int | None:
    return given if isinstance(given, int) and given >= 0 else None


def _item(item: Item | None) -> dict[str, Any] | None:
    if item is None:
        return None
    found: dict[str, Any] = {"json": item.json}
    if item.binary:
        found["binary"] = shown(item.binary)
    if origin := origins(item.paired_item):
        paired = [{"item": one.item} | ({"input": one.input} if one.input else {}) for one in origin]
        found["pairedItem"] = paired[0] if len(paired) == 1 else paired
    return found
