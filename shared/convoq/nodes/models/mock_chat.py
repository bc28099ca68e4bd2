"""Mock Chat Model: a model without a network."""

from __future__ import annotations

from pydantic import Field

from convoq.contract.connections import ConnectionType
from convoq.contract.context import Context
from convoq.contract.node import SubNode
from convoq.contract.parameters import Parameters
from convoq.models.mock import MockModel


class MockParameters(Parameters):
    delay_per_token: float = Field(0, ge=0, le=60_000, alias="delayPerToken")


class MockChatModelNode(SubNode[MockParameters]):
    type = "convoq.lmChatMock"
    aliases = ("@n8n/n8n-nodes-langchain.lmChatMock",)
    versions = (1, 1)
    parameters_class = MockParameters
    supplies = ConnectionType.LANGUAGE_MODEL

    async def supply(self, ctx: Context[MockParameters], item_index: int) -> MockModel:
        return MockModel((await ctx.parameters(item_index)).delay_per_token)
