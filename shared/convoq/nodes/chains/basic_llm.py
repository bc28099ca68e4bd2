"""Basic LLM Chain: one prompt to a model for each item."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import AliasChoices

from convoq.contract.connections import ConnectionType
from convoq.contract.context import RunContext
from convoq.contract.items import Item, Outputs
from convoq.contract.model import AssistantMessage, Message, SystemMessage, UserMessage
from convoq.contract.node import MainNode
from convoq.contract.parameters import Parameters, parameter
from convoq.contract.per_item import per_item
from convoq.nodes.chains.question import ask, ask_for_value, models_for, parser_for, text_of

Kind = Literal["SystemMessagePromptTemplate", "HumanMessagePromptTemplate", "AIMessagePromptTemplate"]
UNWRAPPED_SINCE = 1.5
"""Before it the answer lies in `response`."""


class ChatMessage(Parameters):
    type: Kind = "SystemMessagePromptTemplate"
    message_type: Literal["text", "imageBinary", "imageUrl"] = "text"
    message: str = ""

    def made(self) -> Message:
        if self.type == "AIMessagePromptTemplate":
            return AssistantMessage(self.message)
        return (SystemMessage if self.type == "SystemMessagePromptTemplate" else UserMessage)(self.message)


class ChatMessages(Parameters):
    message_values: tuple[ChatMessage, ...] = ()


class BasicLLMParameters(Parameters):
    """`prompt` is what `text` was called in 1; `promptType` came with 1.3."""

    prompt_type: Literal["", "auto", "define", "guardrails"] = ""
    text: Any = parameter(None, validation_alias=AliasChoices("text", "prompt"))
    messages: ChatMessages = ChatMessages()
    has_output_parser: bool | None = None
    needs_fallback: bool = False
    batching: dict[str, Any] = parameter(default_factory=dict)


class BasicLLMNode(MainNode[BasicLLMParameters]):
    type = "@n8n/n8n-nodes-langchain.chainLlm"
    versions = (1, 1.9)
    parameters_class = BasicLLMParameters
    accepts = {ConnectionType.LANGUAGE_MODEL: True, ConnectionType.OUTPUT_PARSER: False}  # noqa: RUF012

    async def run(self, ctx: RunContext[BasicLLMParameters]) -> Outputs:
        return await per_item(ctx, lambda index: _answer(ctx, index))


async def _answer(ctx: RunContext[BasicLLMParameters], index: int) -> Item:
    parameters, version = await ctx.parameters(index), ctx.node.type_version
    defined = parameters.prompt_type == "define" or (not parameters.prompt_type and parameters.text is not None)
    if defined:
        prompt = text_of(parameters.text, "parameter 'text'")
    else:
        given = ctx.items[index].json
        prompt = text_of(given.get("chatInput", given.get("input")), "the input's 'chatInput'")
    before = [one.made() for one in parameters.messages.message_values if one.message_type == "text" and one.message]
    for one in parameters.messages.message_values:
        if one.message_type != "text":
            ctx.note("images in the messages of a chain are not sent")
    messages = [*before, UserMessage(prompt)]
    models = await models_for(ctx, index, fallback=parameters.needs_fallback)
    parser = await parser_for(ctx, index) if parameters.has_output_parser is not False else None
    if parser is None:
        text = await ask(ctx, models, messages)
        return Item({"text": text} if version >= UNWRAPPED_SINCE else {"response": {"text": text}}, paired_item=index)
    value = await ask_for_value(ctx, models, messages, parser)
    if parser.schema is None:
        return Item({"response": value}, paired_item=index)
    found = {"output": value} if version >= UNWRAPPED_SINCE else {"response": {"output": value}}
    return Item(found, paired_item=index)
