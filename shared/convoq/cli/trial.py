"""`convoq check --run`: one message through a workflow whose models are mocks, whose memories are this process's, and
from which nothing reaches the network."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import re
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NoReturn

from convoq.contract.connections import ConnectionType
from convoq.contract.context import Context
from convoq.contract.execution import ExecutionInfo
from convoq.contract.items import Item
from convoq.contract.memory import Memory
from convoq.contract.model import CallDelta, Delta, Finish, Message, Model, ModelSettings, TextDelta, ToolCall, ToolSpec
from convoq.contract.node import AnyNode, SubNode
from convoq.contract.parameters import Parameters
from convoq.contract.services import Services
from convoq.egress.session import Egress
from convoq.engine.run import WorkflowRun
from convoq.engine.wait_here import wait_here
from convoq.engine.workflow import Workflow
from convoq.errors import ConvoqError, NeedsNetwork, TimedOut
from convoq.ids import new_execution_id
from convoq.memory.local import LocalMemories
from convoq.models.making import ModelMaker
from convoq.models.mock import MockModel
from convoq.settings import Settings

TIMEOUT_S = 30.0
FINAL_TOOL = "format_final_json_response"
"""n8n's name of the tool by which an agent with an output parser gives its answer."""


@dataclass(frozen=True, slots=True)
class Trial:
    """`why` names the node and the error where it failed."""

    result: Literal["answered", "failed", "needs the network"]
    node: str = ""
    why: str = ""
    reply: str = ""

    def as_dict(self) -> dict[str, str]:
        return dataclasses.asdict(self)


async def try_out(workflow: Workflow, settings: Settings, message: str) -> Trial:
    """What becomes of `message`, sent to the workflow's first chat."""
    types = {name: _stand_in(node) for name, node in workflow.types.items()}
    tried = dataclasses.replace(workflow, types=types)
    services = Services(
        settings,
        LocalMemories(),
        _no_network,
        credential=_any_credential,
        workflow=_no_other,
        parts=[
            Egress(open_session=_no_network),
            ModelMaker(lambda *given, **named: TrialModel(settings=given[4])),
        ],
    )
    session = new_execution_id()
    info = ExecutionInfo(session, 1, workflow.id, workflow.name, session, "manual", services.clock())
    run = WorkflowRun(tried, info, services, sleep=_at_once)
    item = Item({"sessionId": session, "action": "sendMessage", "chatInput": message})
    try:
        async with asyncio.timeout(TIMEOUT_S):
            outcome = await run.start(workflow.chat_triggers()[0].node.name, [item])
            outcome = await wait_here(run, outcome, sleep=_at_once)
    except TimeoutError:
        return _failed(TimedOut(f"no answer within {TIMEOUT_S:g} s"), "")
    except ConvoqError as error:
        return _failed(error, "")
    finally:
        await services.close()
    if outcome.error is not None:
        return _failed(outcome.error, outcome.last_node)
    return Trial("answered", reply=outcome.reply_text()[:500])


def _failed(error: ConvoqError, node: str) -> Trial:
    where = str(error.details.get("node") or node)
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, NeedsNetwork):
            return Trial("needs the network", where, error.message[:500])
        cause = cause.__cause__
    return Trial("failed", where, f"{error.code}: {error.message}"[:500])


async def _at_once(seconds: float) -> None:
    """Nobody waits in a trial."""


def _no_network() -> NoReturn:
    raise NeedsNetwork("nothing reaches the network in a trial")


async def _no_other(workflow: object) -> NoReturn:
    raise NeedsNetwork("other workflows are not called in a trial")


async def _any_credential(kind: str, reference: Mapping[str, Any]) -> Mapping[str, Any]:
    return _Anything(host="localhost", accessToken="trial", json="{}")


class _Anything(dict[str, str]):
    """A credential that has every field."""

    def __missing__(self, name: str) -> str:
        return "trial"


def _stand_in(node: AnyNode) -> AnyNode:
    if isinstance(node, SubNode) and node.type:
        if node.supplies is ConnectionType.LANGUAGE_MODEL:
            return _StandIn(node, _model)
        if node.supplies is ConnectionType.MEMORY:
            return _StandIn(node, _memory)
    return node


class _StandIn(SubNode[Parameters]):
    """For a model or a memory: of what it stands for it reads the parameters, so that those are tried, too."""

    def __init__(self, node: SubNode[Any], supplied: Any) -> None:
        self._supplied = supplied
        self.type, self.versions = node.type, node.versions  # type: ignore[misc]
        self.supplies, self.accepts = node.supplies, node.accepts  # type: ignore[misc]
        self.parameters_class = node.parameters_class  # type: ignore[misc]

    async def supply(self, ctx: Context[Any], item_index: int) -> Any:
        await ctx.parameters(item_index)
        return self._supplied(ctx)


def _model(ctx: Context[Any]) -> Model:
    return TrialModel()


def _memory(ctx: Context[Any]) -> Memory:
    return ctx.services.open_memory(ctx.execution, ctx.execution.session_id, ctx.node.name, window=5, ttl_s=60)


class TrialModel(MockModel):
    """The mock, which also gives an answer of the wanted form where one is wanted."""

    async def stream(
        self, messages: Sequence[Message], tools: Sequence[ToolSpec], settings: ModelSettings
    ) -> AsyncGenerator[Delta, None]:
        final = next((tool for tool in tools if tool.name == FINAL_TOOL), None)
        if final is not None:
            yield CallDelta(ToolCall("call_final", FINAL_TOOL, json.dumps(sample(final.parameters))))
            yield Finish("tool_calls")
            return
        if settings.response_format == "json_object":
            yield TextDelta('{"text": "text"}')
            yield Finish("stop")
            return
        if (wanted := _schema_in(messages)) is not None:
            yield TextDelta(json.dumps(sample(wanted)))
            yield Finish("stop")
            return
        async for delta in super().stream(messages, tools, settings):
            yield delta


_FENCED = re.compile(r"JSON schema[^\n]*\n```json\n(.*?)\n```", re.DOTALL)


def _schema_in(messages: Sequence[Message]) -> Any:
    """The schema that the last message asks the answer to fit, as our parsers ask."""
    found = _FENCED.search(messages[-1].content) if messages else None
    return None if found is None else json.loads(found[1])


def sample(schema: Any) -> Any:
    """A value that fits a JSON schema, as far as its types go."""
    if not isinstance(schema, Mapping):
        return "text"
    for key in ("const", "default"):
        if key in schema:
            return schema[key]
    if isinstance(choices := schema.get("enum"), list) and choices:
        return choices[0]
    for key in ("anyOf", "oneOf", "allOf"):
        if isinstance(options := schema.get(key), list) and options:
            return sample(options[0])
    kind = schema.get("type")
    kind = kind[0] if isinstance(kind, list) and kind else kind
    if kind == "object" or "properties" in schema:
        properties = schema.get("properties")
        return {name: sample(inner) for name, inner in properties.items()} if isinstance(properties, Mapping) else {}
    if kind == "array":
        return [sample(schema.get("items", {}))]
    return {"integer": 1, "number": 1.5, "boolean": True, "null": None}.get(str(kind), "text")
