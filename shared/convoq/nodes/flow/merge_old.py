"""Merge as version 1 had it: two inputs, put together by index or by one key."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Literal

from convoq.contract.items import Item
from convoq.contract.parameters import Parameters, parameter
from convoq.nodes.flow.combining import ClashHandling, Entry
from convoq.nodes.flow.matching import FieldPair, Matcher

OldMode = Literal[
    "keepKeyMatches", "mergeByIndex", "mergeByKey", "multiplex", "passThrough", "removeKeyMatches", "wait"
]
_SHALLOW = ClashHandling(merge_mode="shallowMerge")
_FILLING = ClashHandling(merge_mode="shallowMerge", override_empty=True)


class OldMerge(Parameters):
    """What only version 1 knows. `overwrite` says when the second input's field takes the place of the first's."""

    join: Literal["inner", "left", "outer"] = parameter("left", versions=(1, 1))
    property_name1: str = parameter("", versions=(1, 1))
    property_name2: str = parameter("", versions=(1, 1))
    overwrite: Literal["always", "blank", "undefined"] = parameter("always", versions=(1, 1))

    def merged(self, mode: str, one: list[Entry], two: list[Entry]) -> list[Item]:
        if mode == "multiplex":
            return [_SHALLOW.combined(pair) for pair in product(one, two)]
        if mode == "mergeByIndex":
            return self._by_index(one, two)
        found = Matcher([FieldPair(field1=self.property_name1, field2=self.property_name2)], fuzzy=True, which="first")
        matches = found.match(one, two)
        if mode == "removeKeyMatches":
            return [entry.item for entry in matches.unmatched1]
        if mode == "keepKeyMatches":
            return [entry.item for entry, _ in matches.pairs]
        partner = {entry.place: other for entry, others in matches.pairs for other in others}
        return [self._joined(entry, partner.get(entry.place)) for entry in one]

    def _by_index(self, one: Sequence[Entry], two: Sequence[Entry]) -> list[Item]:
        rows = {"inner": min(len(one), len(two)), "left": len(one), "outer": max(len(one), len(two))}[self.join]
        return [_SHALLOW.combined([of[row] for of in (one, two) if row < len(of)]) for row in range(rows)]

    def _joined(self, one: Entry, two: Entry | None) -> Item:
        if two is None:
            return one.item
        other = two.without(self.property_name2)
        if self.overwrite == "always":
            return _SHALLOW.combined([one, other])
        return (_FILLING if self.overwrite == "blank" else _SHALLOW).combined([other, one])
