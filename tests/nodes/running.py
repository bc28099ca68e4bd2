"""A node of the registry on items, alone or in a small workflow."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Mapping, Sequence
from typing import Any

from convoq.contract.items import Item, origins
from convoq.contract.node import AnyNode
from convoq.engine.reading import parse_workflow
from convoq.engine.workflow import Workflow
from convoq.nodes.registry import REGISTRY
from tests.engine.support import Finished, node, registry, run, workflow_json

TYPES: Mapping[str, AnyNode] = ChainMap(dict(REGISTRY), dict(registry()))
Items = Sequence[Mapping[str, Any]]


def parse(nodes: Sequence[dict[str, Any]], *links: str, order: str | None = "v1") -> Workflow:
    """Of the registry's nodes and the engine tests' own. A link reads `From[.output] > To[.input]`."""
    return parse_workflow(workflow_json(nodes, *links, order=order), source="test", registry=TYPES, strict=True)


def on_items(
    kind: str,
    version: float,
    parameters: Mapping[str, Any],
    *inputs: Items,
    workflows: Mapping[str, Workflow] | None = None,
    **settings: Any,
) -> Finished:
    """The run of one node, called `N`, with the items of each of its inputs; `settings` are the node's own."""
    tested = node("N", kind, 800, version=version, parameters=dict(parameters), **settings)
    if len(inputs) == 1:
        return run(parse([node("Start", "start"), tested], "Start > N"), *inputs[0], workflows=workflows)
    givers = [
        node(f"In{at}", "give", 400, 100 * at, parameters={"items": list(items)}) for at, items in enumerate(inputs)
    ]
    links = [f"Start > In{at}" for at in range(len(inputs))] + [f"In{at} > N.{at}" for at in range(len(inputs))]
    return run(parse([node("Start", "start"), *givers, tested], *links), {})


def outputs(done: Finished, name: str = "N") -> list[list[dict[str, Any]]]:
    """The JSON by output of a node's last run; raises what the run failed with."""
    return [[item.json for item in items] for items in items_of(done, name)]


def items_of(done: Finished, name: str = "N") -> list[list[Item]]:
    if done.outcome.error is not None:
        raise done.outcome.error
    last = done.run.state.last_run(name)
    return [] if last is None else last.outputs


def pairs(done: Finished, output: int = 0, name: str = "N") -> list[list[tuple[int, int]]]:
    """For each item of an output the input items that it came from, each with its input."""
    return [[(one.item, one.input) for one in origins(item.paired_item)] for item in items_of(done, name)[output]]
