"""What holds for every node type, whoever adds the next."""

from __future__ import annotations

import inspect
from collections.abc import Mapping

import pytest

from convoq.contract.node import AnyNode, MainNode, SubNode
from convoq.contract.parameters import Parameters
from convoq.nodes.registry import NODES, REGISTRY, Registry


@pytest.mark.parametrize("name", NODES)
def test_a_node_type_is_what_its_line_says(name: str) -> None:
    node = REGISTRY[name]
    assert isinstance(node, MainNode | SubNode)
    assert name == node.type or name in node.aliases
    assert set(node.aliases) <= set(NODES), "an alias is a line of its own"
    low, high = node.versions
    assert 1 <= low <= high


@pytest.mark.parametrize("name", NODES)
def test_a_node_type_is_described(name: str) -> None:
    node = REGISTRY[name]
    assert inspect.getdoc(type(node)) or inspect.getdoc(inspect.getmodule(type(node)))
    described = node.parameters_class.describe()
    assert described["type"] == "object"
    assert issubclass(node.parameters_class, Parameters)


@pytest.mark.parametrize("name", NODES)
def test_every_parameter_may_be_left_out_or_null(name: str) -> None:
    """n8n exports only what differs from the default."""
    parameters_class = REGISTRY[name].parameters_class
    low, high = REGISTRY[name].versions
    for version in (low, high):
        parameters_class.model_validate({}, context={"version": version})
        nulls = dict.fromkeys(parameters_class.describe().get("properties", {}))
        parameters_class.model_validate(nulls, context={"version": version})


def test_the_registry_is_lazy_and_whole() -> None:
    fresh: Mapping[str, AnyNode] = Registry({"test.set": "data.edit_fields:EditFieldsNode"})
    assert "test.set" in fresh and "test.get" not in fresh and list(fresh) == ["test.set"]
    assert fresh["test.set"] is fresh["test.set"]
