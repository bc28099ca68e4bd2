"""What a node is, and what it is given.

A node type is one small class in one file, listed in `convoq.nodes.registry`. A `MainNode` runs on items; a `SubNode`
is pulled by the node that it is connected to and supplies a model, a memory or a tool.
"""

from __future__ import annotations

import builtins
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, Protocol, TypeVar

from pydantic import BaseModel, ConfigDict

if TYPE_CHECKING:
    from convoq.contract.model import ToolSpec
    from convoq.contract.services import Services
    from convoq.engine.workflow import Node


class ConnectionType(StrEnum):
    MAIN = "main"
    LANGUAGE_MODEL = "ai_languageModel"
    MEMORY = "ai_memory"
    TOOL = "ai_tool"
    OUTPUT_PARSER = "ai_outputParser"


@dataclass(slots=True)
class Item:
    """One item on a wire. `paired_item` is the index of the input item that it came from."""

    json: dict[str, Any]
    binary: dict[str, Any] | None = None
    paired_item: int | None = None


class Parameters(BaseModel):
    """A node type's parameters as the file has them, after expressions were evaluated. Unknown ones are ignored."""

    model_config = ConfigDict(extra="ignore", frozen=True, populate_by_name=True)


P = TypeVar("P", bound=Parameters)
P_co = TypeVar("P_co", bound=Parameters, covariant=True)
T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Tool(Protocol):
    """Something a model may call. `call` gives the text the model is told; it raises `ToolFailed` with a reason."""

    @property
    def spec(self) -> ToolSpec: ...

    @property
    def pure(self) -> bool:
        """Whether calling it twice does no harm."""
        ...

    async def call(self, arguments: Mapping[str, Any]) -> str: ...


@dataclass(frozen=True, slots=True)
class Supplied(Generic[T_co]):
    """What a sub-node supplied, and which node it was."""

    node: Node
    value: T_co


@dataclass(frozen=True, slots=True)
class ExecutionInfo:
    """Which run this is. `started` is in seconds since 1970; `attempt` counts from 1."""

    id: str
    attempt: int
    workflow_id: str
    workflow_name: str
    session_id: str
    mode: Literal["production", "manual"]
    started: float


class SubRun(Protocol):
    """A run of a sub-node in the run data: what went in is given at the start, what came out here."""

    def output(self, *items: dict[str, Any]) -> None: ...


class Context(Protocol[P_co]):
    """What every node sees. Item indexes are those of the (consumer's) first input."""

    @property
    def node(self) -> Node: ...

    @property
    def execution(self) -> ExecutionInfo: ...

    @property
    def services(self) -> Services: ...

    @property
    def run_index(self) -> int: ...

    @property
    def items(self) -> Sequence[Item]: ...

    def parameters(self, item_index: int = 0) -> P_co:
        """The parameters with their expressions evaluated on that item. Raises `ExpressionFailed`, `NodeFailed`."""
        ...

    def evaluate(self, template: object, item_index: int = 0) -> Any:
        """One value, or a structure of them, with its expressions evaluated on that item."""
        ...

    async def before_effect(self) -> None:
        """To be awaited before anything that must not happen twice: from here on a lost run is not run again.

        Raises `Fenced` when it is run elsewhere already.
        """
        ...

    async def supplied(self, kind: ConnectionType, item_index: int = 0) -> Sequence[Supplied[Any]]:
        """What the enabled sub-nodes connected by `kind` supply for that item, ordered by input index."""
        ...

    def sub_run(
        self, supplied: Supplied[Any], kind: ConnectionType, given: Mapping[str, Any]
    ) -> AbstractAsyncContextManager[SubRun]:
        """Record a run of a sub-node: input `given`, time taken, output or the error that leaves the block."""
        ...


class RunContext(Context[P_co], Protocol[P_co]):
    """What a main node sees."""

    @property
    def inputs(self) -> Sequence[Sequence[Item]]: ...

    @property
    def last_try(self) -> bool:
        """Whether a failure now is final. With tries left, raise it even where `onError` would make an item of it."""
        ...

    def is_streaming(self) -> bool:
        """Whether somebody listens for chunks. With nobody there, do not make any."""
        ...

    @property
    def stopping(self) -> bool:
        """Whether the cancellation that arrives was asked for by a person: what was said so far is to be kept."""
        ...

    async def send_chunk(self, kind: Literal["begin", "item", "end"], item_index: int, text: str = "") -> None: ...


class NodeType(Generic[P]):
    """`type` is n8n's full type name; `aliases` other names of the same node. `versions` are the least and greatest
    `typeVersion` that are understood."""

    type: ClassVar[str]
    aliases: ClassVar[tuple[str, ...]] = ()
    versions: ClassVar[tuple[float, float]]
    parameters_class: ClassVar[builtins.type[Parameters]]
    tells_thread: ClassVar[bool] = False
    """Whether its items tell what was said in the chat before."""

    def warn(self, node: Node) -> str | None:
        """What somebody who imports this node should know of it, though it works."""
        return None


class MainNode(NodeType[P]):
    """Runs on items. `is_trigger` marks what may start an execution: it gets the triggering item as its input."""

    is_trigger: ClassVar[bool] = False
    outputs: ClassVar[int] = 1
    accepts: ClassVar[Mapping[ConnectionType, bool]] = {}
    """Sub-nodes it takes: connection type -> whether at least one is required."""

    async def run(self, ctx: RunContext[P]) -> list[list[Item]]:
        """The items for each output."""
        raise NotImplementedError


class SubNode(NodeType[P]):
    supplies: ClassVar[ConnectionType]
    accepts: ClassVar[Mapping[ConnectionType, bool]] = {}
    """As a main node's: sub-nodes of its own."""

    async def supply(self, ctx: Context[P], item_index: int) -> Any:
        """A `Model`, `Memory`, `Tool`, … for that item of the consumer."""
        raise NotImplementedError


class PortedSubNode(SubNode[P], MainNode[P]):
    """A sub-node with main connections, too. `run` is for items that arrive on its input; without any it is not run,
    but each time a consumer has run with what it supplied, `after` gives the items for its outputs."""

    async def after(self, ctx: RunContext[P], supplied: Sequence[Any]) -> list[list[Item]]:
        """`supplied` is what the consumer was given, once for each item. The context is as the consumer's was."""
        raise NotImplementedError


AnyNode = MainNode[Any] | SubNode[Any]


@dataclass(slots=True)
class NodeRun:
    """One run of one node, as it is kept for people. `started` in seconds since 1970, `took_ms` in milliseconds.

    `connection` tells in which role a sub-node ran; `error` is `{"code", "message"}`.
    """

    node: str
    run_index: int
    started: float
    took_ms: float = 0.0
    connection: str = ConnectionType.MAIN
    inputs: list[list[dict[str, Any]]] = field(default_factory=list)
    outputs: list[list[dict[str, Any]]] = field(default_factory=list)
    error: dict[str, Any] | None = None
