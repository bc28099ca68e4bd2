"""Items of two inputs that belong together, because fields of theirs are alike."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from convoq.contract.parameters import Parameters
from convoq.nodes import fields
from convoq.nodes.flow.combining import Entry
from convoq.nodes.flow.comparisons import equal, loosely_equal


class FieldPair(Parameters):
    field1: str = ""
    field2: str = ""


@dataclass(slots=True)
class Matches:
    """`pairs` are an entry of the first input with those of the second that match it; `matched2` all of these."""

    pairs: list[tuple[Entry, list[Entry]]] = field(default_factory=list)
    matched2: list[Entry] = field(default_factory=list)
    unmatched1: list[Entry] = field(default_factory=list)
    unmatched2: list[Entry] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Matcher:
    """Which fields have to be alike, and how alike: `fuzzy` takes `"1"` for 1; `which` is what an entry of the first
    input is matched with."""

    pairs: Sequence[FieldPair]
    fuzzy: bool = False
    dots: bool = True
    which: Literal["all", "first"] = "all"

    def match(self, input1: Sequence[Entry], input2: Sequence[Entry]) -> Matches:
        """An entry without one of the fields matches none."""
        found = Matches()
        used: set[int] = set()
        theirs = [self._values(entry, second=True) for entry in input2]
        for entry in input1:
            ours = self._values(entry, second=False)
            places = [] if fields.MISSING in ours else [at for at, one in enumerate(theirs) if self._alike(ours, one)]
            if self.which == "first":
                places = places[:1]
            used.update(places)
            if places:
                found.pairs.append((entry, [input2[at] for at in places]))
            else:
                found.unmatched1.append(entry)
        for at, entry in enumerate(input2):
            (found.matched2 if at in used else found.unmatched2).append(entry)
        return found

    def _values(self, entry: Entry, *, second: bool) -> list[Any]:
        return [
            fields.field(entry.item.json, pair.field2 if second else pair.field1, dots=self.dots) for pair in self.pairs
        ]

    def _alike(self, ours: list[Any], theirs: list[Any]) -> bool:
        return all(self.same(one, other) for one, other in zip(ours, theirs, strict=True))

    def same(self, one: Any, other: Any) -> bool:
        """Of two values that may be missing."""
        if not self.fuzzy:
            return equal(one, other)
        return loosely_equal(*(None if value is fields.MISSING else value for value in (one, other)))
