"""Switch: each item goes to the output of the first rule that it fulfils, or to the one that an expression gives."""

from __future__ import annotations

from typing import Any, Literal

from convoq.contract.context import RunContext
from convoq.contract.definition import Node
from convoq.contract.items import Item
from convoq.contract.node import MainNode
from convoq.contract.parameters import Parameters, parameter
from convoq.errors import BadParameter
from convoq.nodes.flow.conditions import Conditions, EditorOptions, never_holding
from convoq.nodes.flow.old_conditions import OldCondition, OldType, compare
from convoq.nodes.flow.routing import Route, route

MAX_OUTPUTS = 100


class Rule(Parameters):
    conditions: Conditions = Conditions()
    output_key: str = ""


class OldRule(OldCondition):
    """As versions 1 and 2 write it; `output` is version 1's, later each rule has its own."""

    output: int = 0


class Rules(Parameters):
    values: tuple[Rule, ...] = ()
    rules: tuple[OldRule, ...] = ()


class Options(EditorOptions):
    fallback_output: Literal["none", "extra"] | int = "none"
    all_matching_outputs: bool = False


class SwitchParameters(Parameters):
    mode: Literal["rules", "expression"] = "rules"
    rules: Rules = parameter(Rules(), when={"mode": "rules"})
    options: Options = Options()
    loose_type_validation: bool = parameter(False, versions=(3.1, 1000))
    output: int = parameter(0, when={"mode": "expression"})
    number_outputs: int = parameter(4, when={"mode": "expression"}, versions=(3, 1000), ge=1, le=MAX_OUTPUTS)
    outputs_amount: int = parameter(4, when={"mode": "expression"}, versions=(2, 2), ge=1, le=MAX_OUTPUTS)
    data_type: OldType = parameter("number", versions=(1, 2))
    value1: Any = parameter(None, versions=(1, 2))
    fallback_output: int = parameter(-1, versions=(1, 2))

    def fallback(self, version: float) -> int | None:
        """The output of items that fulfil no rule."""
        if version < 3:
            return None if self.fallback_output < 0 else self.fallback_output
        chosen = self.options.fallback_output
        return len(self.rules.values) if chosen == "extra" else None if chosen == "none" else chosen


class SwitchNode(MainNode[SwitchParameters]):
    type = "n8n-nodes-base.switch"
    versions = (1, 3.4)
    parameters_class = SwitchParameters
    pure = True

    def output_count(self, node: Node) -> int:
        given, version = node.parameters, node.type_version
        if version < 2:
            return 4
        if given.get("mode") == "expression":
            number = given.get("numberOutputs" if version >= 3 else "outputsAmount")
            return number if isinstance(number, int) else 4
        extra = version >= 3 and _inner(given.get("options"), "fallbackOutput") == "extra"
        return len(_rules(node)) + extra

    def warn(self, node: Node) -> str | None:
        conditions = (_inner(_inner(rule, "conditions"), "conditions") for rule in _rules(node))
        return never_holding([one for found in conditions if isinstance(found, list) for one in found])

    async def run(self, ctx: RunContext[SwitchParameters]) -> list[list[Item]]:
        version = ctx.node.type_version
        outputs = self.output_count(ctx.node)

        async def choose(index: int) -> Route:
            parameters = await ctx.parameters(index)
            chosen = await _chosen(ctx, parameters, version, index)
            for output in chosen:
                if not 0 <= output < outputs:
                    message = f"item {index}: there is no output {output}, only 0 to {outputs - 1}"
                    raise BadParameter(message, parameter="output", item=index)
            return chosen

        return await route(ctx, outputs, choose)


def _rules(node: Node) -> list[Any]:
    found = _inner(node.parameters.get("rules"), "values" if node.type_version >= 3 else "rules")
    return found if isinstance(found, list) else []


def _inner(raw: Any, name: str) -> Any:
    return raw.get(name) if isinstance(raw, dict) else None


async def _chosen(ctx: RunContext[SwitchParameters], given: SwitchParameters, version: float, index: int) -> list[int]:
    if given.mode == "expression":
        return [given.output]
    found = []
    if version < 3:
        for place, old in enumerate(given.rules.rules):
            if await compare(ctx, given.data_type, old, given.value1, index):
                found.append(old.output if version < 2 else place)
                break
    for place, rule in enumerate(given.rules.values):
        if await rule.conditions.hold(ctx, index):
            found.append(place)
            if not given.options.all_matching_outputs:
                break
    fallback = given.fallback(version)
    return found if found or fallback is None else [fallback]
