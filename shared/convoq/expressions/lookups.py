"""What the sandbox asks for: the data of a run that an evaluation came upon, and only these."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from convoq.contract.binary import shown
from convoq.contract.items import Item, origins
from convoq.errors import ExpressionFailed
from convoq.expressions.paths import MODES, at_place
from convoq.expressions.scope import Scope


def known(needs: Iterable[str], scope: Scope) -> dict[str, dict[str, Any]]:
    """For each need (the JSON of a list, see `runtime/data.js`) its value `{"v"}`, or why there is none `{"e"}`."""
    return {need: _outcome(partial(_found, need, scope)) for need in needs}


def _outcome(find: Callable[[], Any]) -> dict[str, Any]:
    try:
        return {"v": find()}
    except ExpressionFailed as error:
        return {"e": error.message}


def _found(need: str, scope: Scope) -> Any:
    match json.loads(need):
        case ["item"]:
            return _item(scope.items[scope.item_index]) if scope.item_index < len(scope.items) else None
        case ["items"]:
            return list(map(_item, scope.items))
        case ["paired", str() as name]:
            return {str(scope.item_index): _outcome(partial(_paired, name, scope))}
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
        case ["ran", str() as name]:
            return scope.has_run(name)
        case [("previous" | "workflow" | "execution" | "variables" | "environment" | "fromAI") as part]:
            return _of_run(part, scope)
    raise ExpressionFailed(f"there is no {need}")


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
