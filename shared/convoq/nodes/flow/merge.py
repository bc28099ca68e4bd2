"""Merge: puts the items of several branches together, once all of them have come."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any, Literal

from pydantic import Field

from convoq.contract.context import RunContext
from convoq.contract.definition import Node
from convoq.contract.items import Item, Outputs, PairedItem
from convoq.contract.node import MainNode
from convoq.contract.parameters import Parameters, parameter
from convoq.errors import BadParameter
from convoq.nodes import fields
from convoq.nodes.flow.combining import ClashHandling, Entry, entries
from convoq.nodes.flow.matching import FieldPair, Matcher
from convoq.nodes.flow.merge_old import OldMerge, OldMode
from convoq.nodes.flow.merge_sql import select

JoinMode = Literal["keepMatches", "keepNonMatches", "keepEverything", "enrichInput1", "enrichInput2"]
_OLD_COMBINE = {"mergeByFields": "combineByFields", "mergeByPosition": "combineByPosition", "multiplex": "combineAll"}


class Clash(Parameters):
    values: ClashHandling = ClashHandling()


class Pairs(Parameters):
    values: tuple[FieldPair, ...] = ()


class Options(Parameters):
    clash_handling: Clash = Clash()
    include_unpaired: bool = False
    fuzzy_compare: bool = False
    disable_dot_notation: bool = False
    multiple_matches: Literal["all", "first"] = "all"
    empty_query_result: Literal["success", "empty"] = "empty"


class MergeParameters(OldMerge):
    mode: Literal["append", "combine", "combineBySql", "chooseBranch"] | OldMode = "append"
    combine_by: Literal["combineByFields", "combineByPosition", "combineAll"] = parameter(
        "combineByFields", versions=(3, 1000)
    )
    combination_mode: Literal["mergeByFields", "mergeByPosition", "multiplex"] = parameter(
        "mergeByFields", versions=(2, 2.1)
    )
    advanced: bool = parameter(False, versions=(3, 1000))
    fields_to_match_string: str = parameter("", versions=(3, 1000))
    merge_by_fields: Pairs = Pairs()
    join_mode: JoinMode = "keepMatches"
    output_data_from: Literal["both", "input1", "input2"] = parameter(
        "both", when={"join_mode": ["keepMatches", "keepNonMatches"]}
    )
    output: Literal["specifiedInput", "input1", "input2", "empty"] | None = None
    use_data_of_input: int = Field(1, ge=1)
    number_inputs: int = parameter(2, versions=(3, 1000), ge=2, le=10)
    query: str = parameter("", when={"mode": "combineBySql"})
    options: Options = Options()

    def pairs(self, version: float) -> Sequence[FieldPair]:
        """The fields to match. Raises `BadParameter` where none, or only half a pair, is named."""
        pairs: Sequence[FieldPair] = self.merge_by_fields.values
        if version >= 3 and not self.advanced:
            pairs = [FieldPair(field1=name, field2=name) for name in fields.names(self.fields_to_match_string)]
        if not pairs:
            raise BadParameter("no fields to match: name at least one pair", parameter="mergeByFields")
        for number, pair in enumerate(pairs):
            if not (pair.field1 and pair.field2):
                message = f"fields to match: pair {number + 1} needs a field of each input"
                raise BadParameter(message, parameter=f"mergeByFields.values.{number}")
        return pairs


class MergeNode(MainNode[MergeParameters]):
    """An input that nothing will ever reach is not waited for, except where a branch is to be chosen."""

    type = "n8n-nodes-base.merge"
    versions = (1, 3.2)
    parameters_class = MergeParameters
    inputs = 2
    pure = True

    def needs_all_inputs(self, node: Node) -> bool:
        return node.parameters.get("mode") in ("chooseBranch", "passThrough", "wait")

    async def run(self, ctx: RunContext[MergeParameters]) -> Outputs:
        given, version = await ctx.parameters(), ctx.node.type_version
        count = max(given.number_inputs if version >= 3 else 2, len(ctx.inputs))
        inputs = [entries(ctx.inputs[at] if at < len(ctx.inputs) else (), at) for at in range(count)]
        if given.mode == "combineBySql":
            # The query is no expression, but `{{ … }}` in it counts.
            query = await ctx.evaluate(f"={ctx.node.parameters.get('query', '')}")
            return [
                await select(ctx, str(query), inputs, given.options.empty_query_result == "success" or version < 3.2)
            ]
        if given.mode in ("chooseBranch", "passThrough", "wait"):
            return [_chosen(given, inputs)]
        if given.mode == "append":
            return [_items(entry for of in inputs for entry in of)]
        if given.mode != "combine":
            return [given.merged(given.mode, inputs[0], inputs[1])]
        by = given.combine_by if version >= 3 else _OLD_COMBINE[given.combination_mode]
        if by == "combineByPosition":
            return [_by_position(given.options, inputs, version)]
        if by == "combineAll":
            return [_all(given.options.clash_handling.values, inputs[0], inputs[1])]
        return [_by_fields(given, given.pairs(version), inputs[0], inputs[1])]


def _items(found: Any) -> list[Item]:
    return [entry.item for entry in found]


def _chosen(given: MergeParameters, inputs: Sequence[list[Entry]]) -> list[Item]:
    if given.output == "empty" or given.mode == "wait":
        every = [PairedItem(at, entry.input) for of in inputs for at, entry in enumerate(of)]
        return [Item({}, paired_item=every)]
    number = int(given.output[-1]) if given.output in ("input1", "input2") else given.use_data_of_input
    if number > len(inputs):
        raise BadParameter(f"there is no input {number}, only {len(inputs)}", parameter="useDataOfInput")
    return _items(inputs[number - 1])


def _by_position(options: Options, inputs: list[list[Entry]], version: float) -> list[Item]:
    clash = options.clash_handling.values
    lengths = [len(of) for of in inputs]
    rows = range(max(lengths) if options.include_unpaired else min(lengths))
    place = len(inputs) - 1 if clash.preferred is None else min(clash.preferred, len(inputs) - 1)
    made = []
    for row in rows:
        found = [of[row] for of in inputs if row < len(of)]
        last = [inputs[place][row]] if row < lengths[place] else []
        if clash.resolve_clash == "addSuffix":
            # From version 3 on n8n gives the fields of the last input under their own names, too.
            last = last if version >= 3 else []
            found = [entry.suffixed() for entry in found]
        made.append(clash.combined([*found, *last]))
    return made


def _all(clash: ClashHandling, input1: list[Entry], input2: list[Entry]) -> list[Item]:
    return [_combined(clash, one, other) for one, other in product(input1, input2)]


def _combined(clash: ClashHandling, one: Entry, other: Entry, *, first_wins: bool = False) -> Item:
    if clash.resolve_clash == "addSuffix":
        return clash.combined([one.suffixed(), other.suffixed()])
    wins = clash.preferred == 0 if clash.resolve_clash else first_wins
    return clash.combined([other, one] if wins else [one, other])


def _by_fields(
    given: MergeParameters, pairs: Sequence[FieldPair], input1: list[Entry], input2: list[Entry]
) -> list[Item]:
    options, mode, source = given.options, given.join_mode, given.output_data_from
    clash = options.clash_handling.values
    if not (input1 and input2) and mode in ("keepEverything", "keepNonMatches") and source == "both":
        return _items([*input1, *input2])
    which = options.multiple_matches if source == "both" and mode != "keepNonMatches" else "all"
    matcher = Matcher(pairs, options.fuzzy_compare, not options.disable_dot_notation, which)
    found = matcher.match(input1, input2)
    if mode == "keepNonMatches":
        if source == "both":
            return [_with_source(entry) for entry in [*found.unmatched1, *found.unmatched2]]
        return _items(found.unmatched1 if source == "input1" else found.unmatched2)
    if mode == "keepMatches" and source != "both":
        return _items((one for one, _ in found.pairs) if source == "input1" else found.matched2)
    first_wins = mode == "enrichInput2"
    combined = [_combined(clash, one, other, first_wins=first_wins) for one, others in found.pairs for other in others]
    alone: list[Entry] = []
    if mode in ("keepEverything", "enrichInput1"):
        alone += found.unmatched1
    if mode in ("keepEverything", "enrichInput2"):
        alone += found.unmatched2
    suffix = clash.resolve_clash == "addSuffix"
    return combined + _items(entry.suffixed() if suffix else entry for entry in alone)


def _with_source(entry: Entry) -> Item:
    json = {**entry.item.json, "_source": f"input{entry.input + 1}"}
    return Item(json, entry.item.binary, entry.item.paired_item)
