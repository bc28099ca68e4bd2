"""What a node is given while it runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, Generic, Literal, Protocol, TypeVar

from convoq.contract.connections import Kind
from convoq.contract.definition import Node
from convoq.contract.execution import Cancellation, ExecutionInfo
from convoq.contract.items import Item, Outputs
from convoq.contract.parameters import Parameters
from convoq.contract.response import HttpResponse
from convoq.contract.run_data import Tokens
from convoq.contract.services import Services
from convoq.contract.waiting import Wait
from convoq.protocol import Cut, Kept

P_co = TypeVar("P_co", bound=Parameters, covariant=True)
T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


@dataclass(frozen=True, slots=True)
class Supplied(Generic[T_co]):
    """What a sub-node supplied, over which kind of connection, and which node it was."""

    node: Node
    kind: Kind[Any]
    value: T_co


class SubRun(Protocol):
    """A run of a sub-node in the run data: what went in is given at the start, what came out here."""

    def output(self, *items: dict[str, Any], tokens: Tokens | None = None) -> None: ...

    def note(self, sentence: str) -> None: ...


class Runs(Protocol):
    """A main node's way to run (`convoq.contract.node.MainNode.run`)."""

    async def run(self, ctx: Any) -> Outputs | Wait: ...


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

    @property
    def started_with(self) -> Mapping[str, Any]:
        """The JSON of the item that started the execution: the chat message."""
        ...

    @property
    def cancellation(self) -> Cancellation: ...

    @property
    def deadline(self) -> float:
        """When the run ends at the latest, in the event loop's time (infinite where nothing bounds it)."""
        ...

    async def parameters(self, item_index: int = 0) -> P_co:
        """The parameters with their expressions evaluated on that item. Raises `ExpressionFailed`, `BadParameter`."""
        ...

    async def evaluate(self, template: object, item_index: int = 0, variables: Mapping[str, Any] | None = None) -> Any:
        """One value, or a structure of them, with its expressions evaluated on that item. `variables` are further names
        that they may use (`$response`)."""
        ...

    async def evaluate_with(self, template: object, arguments: Mapping[str, Any], item_index: int) -> Any:
        """As `evaluate`, with `$fromAI` giving a model's arguments."""
        ...

    async def credential(self, kind: str) -> Mapping[str, Any] | None:
        """The fields of the node's credential of that type, None where it names none that is known. What is secret in
        them is masked in run data and error texts from here on."""
        ...

    async def needed_credential(self, *kinds: str) -> Mapping[str, Any]:
        """Of the first of these types that the node has. Raises `CredentialMissing`."""
        ...

    async def before_effect(self) -> None:
        """To be awaited before anything that must not happen twice: from here on a lost run is not run again.

        Raises `Fenced` when it is run elsewhere already.
        """
        ...

    async def supplied(self, kind: Kind[T], item_index: int = 0) -> Sequence[Supplied[T]]:
        """What the enabled sub-nodes connected by `kind` supply for that item, ordered by input index."""
        ...

    def sub_run(self, supplied: Supplied[Any], given: Mapping[str, Any]) -> AbstractAsyncContextManager[SubRun]:
        """Record a run of a sub-node: input `given`, time taken, output or the error that leaves the block."""
        ...

    async def invoke(self, node_type: Runs, arguments: Mapping[str, Any], item_index: int) -> Outputs:
        """Run a `MainNode` in this node's place on one item, `$fromAI` giving the model's arguments."""
        ...

    async def call_workflow(self, workflow: str | Mapping[str, Any], items: Sequence[Item]) -> Sequence[Item]:
        """What another workflow (its id, or its definition) makes of items: the first output of its last node.

        Raises `NodeFailed` where there is none of that id, it has no trigger for such calls, it fails, or calls are
        nested too deeply.
        """
        ...

    def is_streaming(self) -> bool:
        """Whether somebody listens for chunks. With nobody there, do not make any."""
        ...

    def wants_reasoning(self) -> bool:
        """Whether the client asked for what models think, too."""
        ...

    async def send_chunk(
        self,
        kind: Literal["begin", "reasoning", "item", "end"],
        item_index: int,
        text: str = "",
        cut: Cut | None = None,
        memory: Kept | None = None,
    ) -> None:
        """`text` is for `reasoning` and `item`; `cut` tells at an `end` why the text is not whole, `memory` how it is
        remembered where that is not whole."""
        ...

    def note(self, sentence: str) -> None:
        """Tell people, in the node's run data, what was odd though it worked."""
        ...


class RunContext(Context[P_co], Protocol[P_co]):
    """What a main node sees."""

    @property
    def inputs(self) -> Sequence[Sequence[Item]]: ...

    @property
    def kept(self) -> dict[str, Any]:
        """JSON that the node keeps from one of its runs to the next, within the execution. Expressions see it as
        `$('Node').context`."""
        ...

    def earlier_items(self, run_index: int) -> Sequence[Item]:
        """What came in on the first input in an earlier run of this node."""
        ...

    async def respond(self, response: HttpResponse, texts: Sequence[str]) -> bool:
        """Answer the request that started the execution: with `response`, or, where the client reads a stream, with
        each of `texts` as a segment of it. False where nobody waits for such an answer, or it was given before."""
        ...

    @property
    def last_try(self) -> bool:
        """Whether a failure now is final. With tries left, raise it even where `onError` would make an item of it."""
        ...
