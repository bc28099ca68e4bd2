"""JavaScript of Code nodes and tools, run in the sandbox.

Each run has a V8 of its own. It sees what an expression sees, and n8n's built-ins of Code nodes; what it answers is
checked as anything from outside is.
"""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Literal

import msgspec

from convoq.contract.items import Paired, PairedItem
from convoq.errors import CodeFailed, ExpressionFailed
from convoq.expressions.lookups import guessed, known
from convoq.expressions.scope import Scope
from convoq.expressions.wire import decoded, encoded

MOST_NEEDS = 100
Stored = MutableMapping[str, Any]
"""What `$getWorkflowStaticData` gives, by its argument (`global`, `node`); runs change it."""


class _Failure(msgspec.Struct):
    message: str
    line: int | None = None


class _Item(msgspec.Struct, rename="camel"):
    json: dict[str, Any]
    binary: dict[str, dict[str, Any]] | None = None
    paired_item: Any = None
    error: Any = None


class _Result(msgspec.Struct):
    item: _Item | None = None
    error: _Failure | None = None


class _Answer(msgspec.Struct):
    items: list[_Item] = []
    results: list[_Result] = []
    value: Any = None
    error: _Failure | None = None
    missing: list[str] = []
    log: list[str] = []
    stored: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Made:
    """An item that code returned. `binary` is as it wrote it: the bytes in base64 as `data`, or a reference that it was
    given, by its `id`. `error` is what it said is wrong with it."""

    json: dict[str, Any]
    binary: Mapping[str, Mapping[str, Any]]
    paired_item: Paired
    error: Any = None


@dataclass(slots=True)
class Ran:
    """What a run gave: `results` has for each item what was made of it, nothing, or why it failed."""

    items: Sequence[Made] = ()
    results: Sequence[Made | CodeFailed | None] = ()
    value: Any = None
    log: Sequence[str] = field(default_factory=list)


async def run_for_all(source: str, scope: Scope, stored: Stored | None = None) -> Ran:
    """Run the code once; `items` is what it returned. Raises `CodeFailed`."""
    answer = await _run(source, scope, "all", {} if stored is None else stored)
    return Ran(items=[_made(item) for item in answer.items], log=answer.log)


async def run_for_each(source: str, scope: Scope, stored: Stored | None = None, *, go_on: bool = False) -> Ran:
    """Run the code for each item of the scope, until one fails or, with `go_on`, for all of them.

    Raises `CodeFailed` only for what is wrong with all of them, such as syntax.
    """
    answer = await _run(source, scope, "each", {} if stored is None else stored, go_on=go_on)
    results = [
        _failure(one.error) if one.error is not None else None if one.item is None else _made(one.item)
        for one in answer.results
    ]
    return Ran(results=results, log=answer.log)


async def run_for_value(source: str, scope: Scope) -> Ran:
    """Run the code once; `value` is what it returned, as JSON has it. Raises `CodeFailed`."""
    answer = await _run(source, scope, "value", {})
    return Ran(value=answer.value, log=answer.log)


@lru_cache(maxsize=512)
def _needs(source: str) -> set[str]:
    """What the code asked for until now."""
    return guessed(source) - {'["item"]'} | {'["items"]'}


async def _run(
    source: str, scope: Scope, mode: Literal["all", "each", "value"], stored: Stored, *, go_on: bool = False
) -> _Answer:
    pool, needs = scope.sandbox.code, set(_needs(source))
    request = {
        "code": source,
        "mode": mode,
        "goOn": go_on,
        "zone": scope.timezone,
        "index": scope.item_index,
        "run": scope.run_index,
        "count": len(scope.items),
        "extra": scope.extra,
        "stored": stored,
        "limit": pool.limits.answer_bytes,
    }
    while True:
        try:
            body = encoded(request | {"known": known(needs, scope, range(len(scope.items)))})
            answer = decoded(await pool.run(body), _Answer)
        except ExpressionFailed as error:
            raise CodeFailed(error.message) from None
        except msgspec.ValidationError as error:
            raise CodeFailed(f"what the code's run answered is not of the right form: {error}") from None
        if not answer.missing:
            break
        if needs.issuperset(answer.missing) or len(needs) > MOST_NEEDS:
            raise CodeFailed("the code's run asks for the same data again, or for too much")
        needs.update(answer.missing)
        if len(_needs(source)) < MOST_NEEDS:
            _needs(source).update(answer.missing)
    if answer.stored is not None:
        stored.update(answer.stored)
    if answer.error is not None:
        raise _failure(answer.error)
    return answer


def _failure(failure: _Failure) -> CodeFailed:
    if failure.line is None:
        return CodeFailed(failure.message)
    return CodeFailed(f"{failure.message} [line {failure.line}]", line=failure.line)


def _made(item: _Item) -> Made:
    return Made(item.json, item.binary or {}, _paired(item.paired_item), item.error)


def _paired(given: Any) -> Paired:
    """As n8n takes it: an index, `{item, input}`, or a list of these; anything else is not known."""
    match given:
        case bool():
            return None
        case int():
            return given if given >= 0 else None
        case {"item": int(item), **others} if item >= 0:
            which = others.get("input", 0)
            return PairedItem(item, which if isinstance(which, int) and which >= 0 else 0)
        case list():
            found = [_paired(one) for one in given]
            return [
                PairedItem(one) if isinstance(one, int) else one for one in found if isinstance(one, int | PairedItem)
            ]
    return None
