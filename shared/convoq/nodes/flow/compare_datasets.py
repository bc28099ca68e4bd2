"""Compare Datasets: which items two inputs have in common, and in what those that belong together differ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from convoq.contract.context import RunContext
from convoq.contract.definition import Node
from convoq.contract.items import Item, Outputs, PairedItem
from convoq.contract.node import MainNode
from convoq.contract.parameters import Parameters, parameter
from convoq.errors import BadParameter
from convoq.nodes import fields
from convoq.nodes.flow.combining import Entry, entries
from convoq.nodes.flow.matching import FieldPair, Matcher

Resolve = Literal["preferInput1", "preferInput2", "mix", "includeBoth"]


class Pairs(Parameters):
    values: tuple[FieldPair, ...] = ()


class Options(Parameters):
    skip_fields: str = ""
    fuzzy_compare: bool = False
    disable_dot_notation: bool = False
    multiple_matches: Literal["first", "all"] = "first"


class CompareDatasetsParameters(Parameters):
    """Version 1 prefers the second input where the file does not say, later ones show both."""

    merge_by_fields: Pairs = Pairs()
    fuzzy_compare: bool = parameter(False, versions=(2, 1000))
    resolve: Resolve | None = None
    prefer_when_mix: Literal["input1", "input2"] = parameter("input1", when={"resolve": "mix"})
    except_when_mix: str = parameter("", when={"resolve": "mix"})
    options: Options = Options()

    def matcher(self) -> Matcher:
        pairs = self.merge_by_fields.values
        if not pairs or not all(pair.field1 and pair.field2 for pair in pairs):
            raise BadParameter(
                "fields to match: name at least one pair, each with both fields", parameter="mergeByFields"
            )
        options = self.options
        fuzzy = self.fuzzy_compare or options.fuzzy_compare
        return Matcher(pairs, fuzzy, not options.disable_dot_notation, options.multiple_matches)


class CompareDatasetsNode(MainNode[CompareDatasetsParameters]):
    """Outputs: only in A, the same, different, only in B."""

    type = "n8n-nodes-base.compareDatasets"
    versions = (1, 2.3)
    parameters_class = CompareDatasetsParameters
    inputs = 2
    outputs = 4
    pure = True

    async def run(self, ctx: RunContext[CompareDatasetsParameters]) -> Outputs:
        given = await ctx.parameters()
        comparison = _Comparison(given, ctx.node)
        second = ctx.inputs[1] if len(ctx.inputs) > 1 else ()
        found = given.matcher().match(entries(ctx.inputs[0], 0), entries(second, 1))
        same: list[Item] = []
        different: list[Item] = []
        for entry, others in found.pairs:
            differing = [other for other in others if not comparison.alike(entry.item.json, other.item.json)]
            if len(differing) < len(others):
                same.append(entry.item)
            different += [comparison.shown(entry, other) for other in differing]
        return [_items(found.unmatched1), same, different, _items(found.unmatched2)]


def _items(found: Sequence[Entry]) -> list[Item]:
    return [entry.item for entry in found]


class _Comparison:
    """Of two items that belong together."""

    def __init__(self, given: CompareDatasetsParameters, node: Node) -> None:
        self._given = given
        self._old = node.type_version < 2
        self._matcher = given.matcher()
        self._skipped = frozenset(fields.names(given.options.skip_fields))

    def alike(self, one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
        return not self._differing(one, other) - self._skipped

    def _differing(self, one: Mapping[str, Any], other: Mapping[str, Any]) -> set[str]:
        return {
            name
            for name in {*one, *other}
            if not self._matcher.same(one.get(name, fields.MISSING), other.get(name, fields.MISSING))
        }

    def shown(self, one: Entry, other: Entry) -> Item:
        """What is told of two that differ."""
        resolve = self._given.resolve or ("preferInput2" if self._old else "includeBoth")
        if resolve == "preferInput1":
            return one.item
        if resolve == "preferInput2":
            return other.item
        both = [PairedItem(entry.place, entry.input) for entry in (one, other)]
        if resolve == "mix":
            return Item(self._mixed(one.item.json, other.item.json), one.item.binary, both)
        return Item(self._side_by_side(one.item.json, other.item.json), paired_item=both)

    def _mixed(self, one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
        base, exceptions = (one, other) if self._given.prefer_when_mix == "input1" else (other, one)
        mixed = dict(base)
        for name in fields.names(self._given.except_when_mix):
            mixed[name] = exceptions.get(name)
        return mixed

    def _side_by_side(self, one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
        names = ("input1", "input2") if self._old else ("inputA", "inputB")
        differing = self._differing(one, other)
        apart = {
            name: dict(zip(names, (one.get(name), other.get(name)), strict=True))
            for name in {**one, **other}
            if name in differing
        }
        found = {
            "keys": {pair.field1: one.get(pair.field1) for pair in self._matcher.pairs},
            "same": {name: value for name, value in one.items() if name in other and name not in differing},
            "different": {name: sides for name, sides in apart.items() if name not in self._skipped},
        }
        skipped = {name: sides for name, sides in apart.items() if name in self._skipped}
        return {**found, "skipped": skipped} if skipped else found
