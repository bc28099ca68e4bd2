"""What a node type is.

One small class in one file, listed in `convoq.nodes.registry`. A `MainNode` runs on items; a `SubNode` is pulled by the
node that it is connected to and supplies a model, a memory, a tool, …
"""

from __future__ import annotations

import builtins
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Generic, TypeVar

from convoq.contract.connections import ConnectionType
from convoq.contract.context import Context, RunContext
from convoq.contract.definition import Node
from convoq.contract.items import Outputs
from convoq.contract.parameters import Parameters
from convoq.contract.waiting import Resumed, Wait

P = TypeVar("P", bound=Parameters)


class NodeType(Generic[P]):
    """`type` is n8n's full type name; `aliases` other names of the same node. `versions` are the least and greatest
    `typeVersion` that are understood. The class's docstring is what people read of it."""

    type: ClassVar[str]
    title: ClassVar[str] = ""
    aliases: ClassVar[tuple[str, ...]] = ()
    versions: ClassVar[tuple[float, float]]
    parameters_class: ClassVar[builtins.type[Parameters]] = Parameters
    accepts: ClassVar[Mapping[ConnectionType, bool]] = {}
    """Sub-nodes it takes: connection type -> whether at least one is required."""
    credentials: ClassVar[tuple[str, ...]] = ()
    """The credential types it can use, and, unless `needed_credentials` says else, needs one of."""
    tells_thread: ClassVar[bool] = False
    """Whether its items tell what was said in the chat before."""

    def needed_credentials(self, node: Node) -> Sequence[str]:
        """The types of which it needs a credential, any one of them; none: it can do without. Those that the file
        names come first."""
        return [kind for kind in self.credentials if kind in node.credentials] or self.credentials

    def stand_in(self, node: Node) -> str | None:
        """What it does for want of a credential that is known, in a sentence; None: it fails."""
        return None

    def warn(self, node: Node) -> str | None:
        """What somebody who imports this node should know of it, though it works."""
        return None


class MainNode(NodeType[P]):
    """Runs on items. `is_trigger` marks what may start an execution: it gets the triggering item as its input."""

    is_trigger: ClassVar[bool] = False
    called_by_workflows: ClassVar[bool] = False
    """Whether it is the trigger with which a call by another workflow begins."""
    inputs: ClassVar[int] = 1
    outputs: ClassVar[int] = 1
    pure: ClassVar[bool] = False
    """Whether running it twice does no harm to anything outside."""

    def output_count(self, node: Node) -> int:
        """Without the error output. For nodes whose parameters say how many outputs they have."""
        return self.outputs

    def needs_all_inputs(self, node: Node) -> bool:
        """Whether it runs only once every input has been given something; no items will do."""
        return False

    async def run(self, ctx: RunContext[P]) -> Outputs | Wait:
        """The items for each output, or what it waits for."""
        raise NotImplementedError

    async def resume(self, ctx: RunContext[P], state: Mapping[str, Any], resumed: Resumed) -> Outputs | Wait:
        """Go on after a `Wait`, whose `state` comes back. The context is as it was."""
        raise NotImplementedError


class SubNode(NodeType[P]):
    supplies: ClassVar[ConnectionType]

    async def supply(self, ctx: Context[P], item_index: int) -> Any:
        """What the protocol of `supplies` says (`convoq.contract.connections`), for that item of the consumer."""
        raise NotImplementedError


class PortedSubNode(SubNode[P], MainNode[P]):
    """A sub-node with main connections, too. `run` is for items that arrive on its input; without any it is not run,
    but each time a consumer has run with what it supplied, `after` gives the items for its outputs."""

    async def after(self, ctx: RunContext[P], supplied: Sequence[Any]) -> Outputs:
        """`supplied` is what the consumer was given, once for each item. The context is as the consumer's was."""
        raise NotImplementedError


AnyNode = MainNode[Any] | SubNode[Any]
