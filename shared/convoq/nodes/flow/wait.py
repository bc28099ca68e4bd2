"""Wait: the execution goes on at a later time, or when its resume address is called."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from convoq.contract.context import RunContext
from convoq.contract.items import Item, Outputs
from convoq.contract.node import MainNode
from convoq.contract.parameters import Parameters, parameter
from convoq.contract.waiting import Resumed, Wait
from convoq.errors import BadParameter
from convoq.nodes.flow.scripted import instant

Unit = Literal["seconds", "minutes", "hours", "days"]
SECONDS: Mapping[Unit, int] = {"seconds": 1, "minutes": 60, "hours": 3600, "days": 86400}
_ON_CALL = {"resume": ["webhook", "form"]}


class WaitParameters(Parameters):
    """Where the file has none, version 1 waits an hour, later ones five seconds."""

    resume: Literal["timeInterval", "specificTime", "webhook", "form"] = "timeInterval"
    amount: float | None = parameter(None, when={"resume": "timeInterval"}, ge=0, allow_inf_nan=False)
    unit: Unit | None = parameter(None, when={"resume": "timeInterval"})
    date_time: str = parameter("", when={"resume": "specificTime"})
    limit_wait_time: bool = parameter(False, when=_ON_CALL)
    limit_type: Literal["afterTimeInterval", "atSpecifiedTime"] = parameter("afterTimeInterval", when=_ON_CALL)
    resume_amount: float = parameter(1, when=_ON_CALL, ge=0, allow_inf_nan=False)
    resume_unit: Unit = parameter("hours", when=_ON_CALL)
    max_date_and_time: str = parameter("", when=_ON_CALL)


class WaitNode(MainNode[WaitParameters]):
    """Its items come out again; after a call, what was sent does."""

    type = "n8n-nodes-base.wait"
    versions = (1, 1.1)
    parameters_class = WaitParameters
    pure = True

    async def run(self, ctx: RunContext[WaitParameters]) -> Outputs | Wait:
        given = await ctx.parameters()
        now = ctx.services.clock()
        if given.resume in ("webhook", "form"):
            return Wait("call", await _limit(ctx, given, now))
        if given.resume == "specificTime":
            until = await _moment(ctx, given.date_time, "dateTime")
        else:
            amount, unit = _defaults(ctx.node.type_version)
            seconds = (amount if given.amount is None else given.amount) * SECONDS[given.unit or unit]
            until = now + seconds
        return Wait("time", until) if until > now else _passed(ctx)

    async def resume(
        self, ctx: RunContext[WaitParameters], state: Mapping[str, Any], resumed: Resumed
    ) -> Outputs | Wait:
        return [[Item(dict(resumed.given), paired_item=0)]] if resumed.why == "given" else _passed(ctx)


def _passed(ctx: RunContext[Any]) -> Outputs:
    return [[Item(item.json, item.binary, index) for index, item in enumerate(ctx.items)]]


def _defaults(version: float) -> tuple[float, Unit]:
    return (1, "hours") if version < 1.1 else (5, "seconds")


async def _limit(ctx: RunContext[WaitParameters], given: WaitParameters, now: float) -> float | None:
    if not given.limit_wait_time:
        return None
    if given.limit_type == "atSpecifiedTime":
        return await _moment(ctx, given.max_date_and_time, "maxDateAndTime")
    return now + given.resume_amount * SECONDS[given.resume_unit]


async def _moment(ctx: RunContext[WaitParameters], text: str, name: str) -> float:
    found = await instant(ctx, text)
    if found is None:
        raise BadParameter(f"parameter {name!r}: {text[:100]!r} is no date and time", parameter=name)
    return found / 1000
