"""What convoq makes of a workflow, said to the person who brings it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from convoq.contract.connections import ConnectionType
from convoq.contract.services import FindCredential
from convoq.engine.workflow import Workflow
from convoq.errors import Fault

State = Literal["ready", "ready without", "not runnable", "unreadable"]


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a node cannot run. `type` is its node type."""

    node: str
    type: str
    why: str


@dataclass(frozen=True, slots=True)
class NeededCredential:
    """One of these credential types, for these nodes; `name` is what the file calls it."""

    kinds: tuple[str, ...]
    name: str
    nodes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Report:
    """`left_out` are tools that the agent does without, `in_the_way` the nodes on the chat's path that cannot run.

    A credential that is needed does not change the state: it is given, and the workflow runs.
    """

    name: str
    state: State
    left_out: Sequence[Reason] = ()
    in_the_way: Sequence[Reason] = ()
    credentials: Sequence[NeededCredential] = ()
    warnings: Sequence[str] = ()
    chats: Sequence[str] = field(default=())
    """The paths of its chat triggers."""

    def as_dict(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "state": self.state,
            "left_out": [{"node": one.node, "type": one.type, "why": one.why} for one in self.left_out],
            "in_the_way": [{"node": one.node, "type": one.type, "why": one.why} for one in self.in_the_way],
            "credentials": [
                {"types": list(one.kinds), "name": one.name, "nodes": list(one.nodes)} for one in self.credentials
            ],
            "warnings": list(self.warnings),
            "chats": list(self.chats),
        }


def unreadable(name: str, why: str) -> Report:
    return Report(name, "unreadable", in_the_way=[Reason("", "", why)])


async def report_on(workflow: Workflow, credential: FindCredential) -> Report:
    """Of what lies on the path of its chats. `credential` tells what is known."""
    path = chat_path(workflow)
    if not workflow.chat_triggers():
        why = "it has no enabled Chat Trigger: nothing starts it here"
        return Report(workflow.name, "not runnable", in_the_way=[Reason("", "", why)], warnings=workflow.warnings)
    left_out = [_reason(workflow, name) for name in path if name in workflow.left_out]
    in_the_way = [_reason(workflow, name) for name in path if name in workflow.faults and name not in workflow.left_out]
    running = [name for name in path if name not in workflow.left_out and name not in workflow.faults]
    state: State = "not runnable" if in_the_way else "ready without" if left_out else "ready"
    return Report(
        workflow.name,
        state,
        left_out,
        in_the_way,
        await _missing(workflow, running, credential),
        [*workflow.warnings, *await stand_ins(workflow, credential)],
        [trigger.path for trigger in workflow.chat_triggers()],
    )


def chat_path(workflow: Workflow) -> list[str]:
    """The enabled nodes that a chat message can reach, sub-nodes included, in the order in which they are met. What
    only supplies a tool that is left out is not among them."""
    following: dict[str, list[str]] = {}
    suppliers: dict[str, list[str]] = {}
    for edge in workflow.connections:
        main = edge.kind is ConnectionType.MAIN
        where = following if main else suppliers
        where.setdefault(edge.source if main else edge.target, []).append(edge.target if main else edge.source)
    waiting = [trigger.node.name for trigger in workflow.chat_triggers()]
    found: dict[str, None] = {}
    while waiting:
        name = waiting.pop(0)
        if name in found:
            continue
        disabled = workflow.nodes[name].disabled
        if not disabled:
            found[name] = None
        waiting += (one for one in following.get(name, ()))
        if not disabled and name not in workflow.left_out:
            waiting += (one for one in suppliers.get(name, ()) if not workflow.nodes[one].disabled)
    return list(found)


def _reason(workflow: Workflow, name: str) -> Reason:
    faults = workflow.faults.get(name, ())
    why = "; ".join(map(_said, faults))
    return Reason(name, workflow.nodes[name].type, why or "what supplies it cannot run")


def _said(fault: Fault) -> str:
    """The parameter is named where it is one."""
    plain = fault.parameter in ("", "type", "typeVersion") or fault.parameter.startswith("connections")
    return fault.message if plain else f"{fault.parameter}: {fault.message}"


async def stand_ins(workflow: Workflow, credential: FindCredential) -> list[str]:
    """What nodes on the path of its chats do for want of a credential, a line each."""
    said = []
    for name in chat_path(workflow):
        node, node_type = workflow.nodes[name], workflow.types.get(name)
        if node_type is None or (sentence := node_type.stand_in(node)) is None:
            continue
        if not await _any(credential, node_type.needed_credentials(node), node.credentials):
            said.append(f"{name!r}: {sentence}")
    return said


async def _missing(workflow: Workflow, names: Iterable[str], credential: FindCredential) -> list[NeededCredential]:
    wanted: dict[tuple[tuple[str, ...], str], list[str]] = {}
    for name in names:
        node = workflow.nodes[name]
        kinds = tuple(workflow.types[name].needed_credentials(node))
        if not kinds:
            continue
        references: Mapping[str, Any] = node.credentials
        given = next((references[kind] for kind in kinds if kind in references), None)
        reference = given if isinstance(given, Mapping) else {}
        if not await _any(credential, kinds, references):
            wanted.setdefault((kinds, str(reference.get("name") or "")), []).append(name)
    return [NeededCredential(kinds, name, tuple(nodes)) for (kinds, name), nodes in wanted.items()]


async def _any(
    credential: Callable[[str, Mapping[str, Any]], Awaitable[Mapping[str, Any] | None]],
    kinds: Iterable[str],
    references: Mapping[str, Any],
) -> bool:
    for kind in kinds:
        reference = references.get(kind)
        if await credential(kind, reference if isinstance(reference, Mapping) else {}) is not None:
            return True
    return False
