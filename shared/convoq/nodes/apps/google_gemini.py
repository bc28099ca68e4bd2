"""Google Gemini: a message to one of its models."""

from __future__ import annotations

from typing import Literal

from convoq.contract.connections import ConnectionType
from convoq.contract.context import RunContext
from convoq.contract.items import Item, Outputs
from convoq.contract.node import MainNode
from convoq.contract.parameters import Parameters, parameter
from convoq.contract.per_item import per_item
from convoq.errors import NodeFailed
from convoq.models.making import ModelMaker
from convoq.nodes.apps.message import MAX_ROUNDS, ChatMessages, ask_model, content_of
from convoq.nodes.models.compatible import GeminiModelNode
from convoq.nodes.models.options import ModelOptions, text


class GeminiOptions(ModelOptions):
    system_message: str = ""
    max_tools_iterations: int = parameter(MAX_ROUNDS, ge=0, le=1000)


class GeminiParameters(Parameters):
    resource: Literal["text"] = "text"
    operation: Literal["message"] = "message"
    model_id: str = ""
    messages: ChatMessages = ChatMessages()
    simplify: bool = True
    json_output: bool = False
    options: GeminiOptions = GeminiOptions()


class GoogleGeminiNode(MainNode[GeminiParameters]):
    type = "@n8n/n8n-nodes-langchain.googleGemini"
    versions = (1, 1.1)
    parameters_class = GeminiParameters
    accepts = {ConnectionType.TOOL: False}  # noqa: RUF012
    credentials = ("googlePalmApi",)

    async def run(self, ctx: RunContext[GeminiParameters]) -> Outputs:
        return await per_item(ctx, lambda index: _message(ctx, index))


async def _message(ctx: RunContext[GeminiParameters], index: int) -> Item:
    parameters = await ctx.parameters(index)
    options = parameters.options
    if not parameters.model_id:
        raise NodeFailed("parameter 'modelId' is empty: no model is chosen")
    fields = await ctx.needed_credential("googlePalmApi")
    base_url = (text(fields.get("host")) or GeminiModelNode.base_url).rstrip("/") + GeminiModelNode.base_path
    model = ctx.services.part(ModelMaker).openai(
        ctx.services.http,
        parameters.model_id.removeprefix("models/"),
        base_url,
        text(fields.get("apiKey")) or None,
        options.settings(ctx.services.settings, json=parameters.json_output),
    )
    system = ChatMessages.model_validate({"values": [{"role": "system", "content": options.system_message}]}).values
    given = (*(system if options.system_message else ()), *parameters.messages.values)
    reply = await ask_model(ctx, index, model, given, options.max_tools_iterations or MAX_ROUNDS)
    content = content_of(reply, as_json=parameters.json_output)
    said = {"content": {"parts": [{"text": content}], "role": "model"}, "finishReason": "STOP", "index": 0}
    return Item(said if parameters.simplify else {"candidates": [said]}, paired_item=index)
