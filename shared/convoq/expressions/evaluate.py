"""Expressions: `={{ … }}` alone keeps its type, text around it makes a string.

`evaluate` is the one door. Plain paths and literals are read at once; the rest is JavaScript and goes to the sandbox,
all expressions of one structure together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from convoq.errors import ExpressionFailed
from convoq.expressions import js
from convoq.expressions.lookups import known
from convoq.expressions.paths import Read
from convoq.expressions.scope import Scope
from convoq.expressions.template import Template, template
from convoq.expressions.wire import decoded, encoded


def has_expression(value: object) -> bool:
    """Whether any string in the structure is an expression."""
    if isinstance(value, str):
        return value.startswith("=")
    if isinstance(value, dict):
        return any(map(has_expression, value.values()))
    return isinstance(value, list) and any(map(has_expression, value))


async def evaluate(value: object, scope: Scope) -> Any:
    """The value of a template; of a structure, a copy with every expression in it evaluated. Undefined is None.

    Raises `ExpressionFailed`, which names the node and quotes the expression.
    """
    return await _evaluate(value, scope, given=False)


async def evaluate_given(value: object, scope: Scope) -> Any:
    """As `evaluate`, but without the keys whose value comes to nothing: to be read as not given."""
    return await _evaluate(value, scope, given=True)


async def _evaluate(value: object, scope: Scope, *, given: bool) -> Any:
    top: list[Any] = [None]
    reading = _Reading(scope, given)
    reading.put(value, top, 0)
    if reading.places:
        await reading.fill()
    return top[0]


@dataclass(frozen=True, slots=True)
class _Place:
    """Where in the copy a value that the sandbox makes goes."""

    container: Any
    key: Any
    source: str
    template: Template


class _Reading:
    """A structure while its copy is made. `given`: without the keys of objects whose value comes to nothing."""

    __slots__ = ("given", "places", "scope")

    def __init__(self, scope: Scope, given: bool) -> None:
        self.scope = scope
        self.given = given
        self.places: list[_Place] = []

    def put(self, value: object, container: Any, key: Any) -> None:
        if isinstance(value, str) and value.startswith("="):
            found = template(value)
            if found.parts is None:
                self.places.append(_Place(container, key, value, found))
                container[key] = None
            elif (read := self._plain(found.parts, value)) is not None or not self._may_drop(container):
                container[key] = read
        elif isinstance(value, dict):
            copy: dict[str, Any] = {}
            container[key] = copy
            for name, inner in value.items():
                self.put(inner, copy, name)
        elif isinstance(value, list):
            items: list[Any] = [None] * len(value)
            container[key] = items
            for index, inner in enumerate(value):
                self.put(inner, items, index)
        else:
            container[key] = value

    async def fill(self) -> None:
        """Ask the sandbox for what is left, again and again while it misses data."""
        templates = [place.template for place in self.places]
        needs = {need for one in templates for need in one.needs}
        while True:
            answer = await self._ask(templates, needs)
            if not (missing := answer.get("missing")):
                break
            if needs.issuperset(missing):
                raise self._failure("the sandbox asks for the same again", self.places[0].source)
            needs.update(missing)
            for one in templates:
                one.note(missing)
        for place, result in zip(self.places, answer["results"], strict=True):
            if (message := result.get("e")) is not None:
                raise self._failure(message, place.source)
            place.container[place.key] = result["v"]
            if result["v"] is None and self._may_drop(place.container):
                del place.container[place.key]

    def _may_drop(self, container: Any) -> bool:
        return self.given and isinstance(container, dict)

    def _plain(self, parts: Sequence[str | Read], source: str) -> Any:
        try:
            values = [part if isinstance(part, str) else part(self.scope) for part in parts]
        except ExpressionFailed as error:
            raise self._failure(error.message, source) from None
        return values[0] if len(values) == 1 else "".join(map(js.text, values))

    async def _ask(self, templates: Sequence[Template], needs: set[str]) -> dict[str, Any]:
        scope = self.scope
        request = {
            "templates": [one.request for one in templates],
            "known": known(needs, scope),
            "zone": scope.timezone,
            "index": scope.item_index,
            "run": scope.run_index,
            "extra": scope.extra,
            "limit": scope.sandbox.expressions.limits.answer_bytes,
        }
        try:
            answer = decoded(await scope.sandbox.expressions.run(encoded(request)), dict[str, Any])
        except ExpressionFailed as error:
            raise self._failure(error.message, self.places[0].source) from None
        if "error" in answer:
            raise self._failure(answer["error"]["message"], self.places[0].source)
        return answer

    def _failure(self, message: str, source: str) -> ExpressionFailed:
        shown = source if len(source) <= 300 else f"{source[:300]}…"
        name = self.scope.node_name
        where = f"node {name!r}, expression {shown!r}"
        return ExpressionFailed(f"{where}: {message}", node=name, expression=source, reason=message)
