"""OpenAI: a message to one of its models, or to one of any server that speaks its protocol."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import AliasChoices

from convoq.contract.connections import ConnectionType
from convoq.contract.context import RunContext
from convoq.contract.items import Item, Outputs
from convoq.contract.node import MainNode
from convoq.contract.parameters import Parameters, parameter
from convoq.contract.per_item import per_item
from convoq.errors import NodeFailed
from convoq.models.making import ModelMaker
from convoq.nodes.apps.message import MAX_ROUNDS, ChatMessages, ask_model, content_of
from convoq.nodes.models.openai_chat import server_of
from convoq.nodes.models.options import ModelOptions


class MessageOptions(ModelOptions):
    """`textFormat` is where version 2 has its wish for JSON."""

    max_tools_iterations: int = parameter(MAX_ROUNDS, ge=0, le=1000)
    text_format: dict[str, Any] = parameter(default_factory=dict)

    @property
    def wants_json(self) -> bool:
        wanted = self.text_format.get("textOptions")
        return isinstance(wanted, dict) and wanted.get("type") in ("json_object", "json_schema")


class OpenAIParameters(Parameters):
    """`messages` is what 1 calls them, `responses` 2."""

    resource: Literal["text"] = "text"
    operation: Literal["message", "response"] = "message"
    model_id: str = parameter("", validation_alias=AliasChoices("modelId", "model"))
    messages: ChatMessages = ChatMessages()
    responses: ChatMessages = ChatMessages()
    simplify: bool = parameter(True, validation_alias=AliasChoices("simplify", "simplifyOutput"))
    json_output: bool = False
    options: MessageOptions = MessageOptions()


class OpenAINode(MainNode[OpenAIParameters]):
    type = "@n8n/n8n-nodes-langchain.openAi"
    versions = (1, 2.1)
    parameters_class = OpenAIParameters
    accepts = {ConnectionType.TOOL: False, ConnectionType.MEMORY: False}  # noqa: RUF012
    credentials = ("openAiApi",)

    async def run(self, ctx: RunContext[OpenAIParameters]) -> Outputs:
        return await per_item(ctx, lambda index: _message(ctx, index))


async def _message(ctx: RunContext[OpenAIParameters], index: int) -> Item:
    parameters, second = await ctx.parameters(index), ctx.node.type_version >= 2
    if not parameters.model_id:
        raise NodeFailed("parameter 'modelId' is empty: no model is chosen")
    as_json = parameters.json_output or parameters.options.wants_json
    base_url, key = await server_of(ctx, parameters.options.base_url)
    settings = parameters.options.settings(ctx.services.settings, json=as_json)
    make = ctx.services.part(ModelMaker).openai
    model = make(ctx.services.http, parameters.model_id, base_url, key, settings)
    given = (parameters.responses if second else parameters.messages).values
    reply = await ask_model(ctx, index, model, given, parameters.options.max_tools_iterations or MAX_ROUNDS)
    content = content_of(reply, as_json=as_json)
    if second:
        said = {"type": "output_text", "text": content, "annotations": []}
        return Item(
            {"output": [{"type": "message", "role": "assistant", "status": "completed", "content": [said]}]},
            paired_item=index,
        )
    choice = {
        "index": 0,
        "message": {"role": "assistant", "content": content, "refusal": None, "annotations": []},
        "logprobs": None,
        "finish_reason": reply.finish.reason,
    }
    return Item(
        choice if parameters.simplify else {"model": parameters.model_id, "choices": [choice]}, paired_item=index
    )
