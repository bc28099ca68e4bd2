"""AI Agent: a model, tools and a memory answer each item's prompt."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from convoq.contract.connections import MEMORY, MODEL, OUTPUT_PARSER, TOOL, ConnectionType
from convoq.contract.context import RunContext, Supplied
from convoq.contract.items import Item
from convoq.contract.memory import Memory
from convoq.contract.node import MainNode
from convoq.contract.parameters import Parameters
from convoq.contract.per_item import per_item
from convoq.errors import NodeFailed
from convoq.memory.tokens import count_turn, how
from convoq.memory.window import FittedView
from convoq.models.asking import Asking
from convoq.models.speech import Speech
from convoq.nodes.agents.final_answer import instructions
from convoq.nodes.agents.loop import AgentLoop

DEFAULT_SYSTEM_MESSAGE = "You are a helpful assistant"


class AgentOptions(BaseModel):
    """An absent `system_message` means the default; an empty one none at all."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    system_message: Any = Field(DEFAULT_SYSTEM_MESSAGE, alias="systemMessage")
    max_iterations: int = Field(10, alias="maxIterations", ge=1, le=1000)
    return_intermediate_steps: bool = Field(False, alias="returnIntermediateSteps")
    enable_streaming: bool = Field(True, alias="enableStreaming")
    max_tokens_from_memory: int = Field(0, alias="maxTokensFromMemory", ge=0)


class AgentParameters(Parameters):
    """`agent` chose a kind of agent before 1.7: all of them are answered by the one that calls tools."""

    agent: str = "toolsAgent"
    prompt_type: str = Field("", alias="promptType")
    text: Any = None
    has_output_parser: bool = Field(False, alias="hasOutputParser")
    needs_fallback: bool = Field(False, alias="needsFallback")
    options: AgentOptions = Field(AgentOptions())


class AgentNode(MainNode[AgentParameters]):
    type = "@n8n/n8n-nodes-langchain.agent"
    versions = (1, 3.1)
    parameters_class = AgentParameters
    accepts = {  # noqa: RUF012
        ConnectionType.LANGUAGE_MODEL: True,
        ConnectionType.MEMORY: False,
        ConnectionType.TOOL: False,
        ConnectionType.OUTPUT_PARSER: False,
    }

    async def run(self, ctx: RunContext[AgentParameters]) -> list[list[Item]]:
        return await per_item(ctx, lambda index: answer_item(ctx, index))


async def answer_item(ctx: RunContext[AgentParameters], index: int) -> Item:
    parameters = await ctx.parameters(index)
    if parameters.agent == "sqlAgent":
        raise NodeFailed("parameter 'agent': the SQL agent is not supported; use a tools agent")
    options = parameters.options
    prompt = _prompt(ctx, parameters, index)
    models = await ctx.supplied(MODEL, index)
    if not models:
        raise NodeFailed("no chat model is connected")
    if parameters.needs_fallback and len(models) < 2:
        raise NodeFailed("parameter 'needsFallback' is on, but no second chat model is connected")
    memories = await ctx.supplied(MEMORY, index)
    parsers = await ctx.supplied(OUTPUT_PARSER, index) if parameters.has_output_parser else ()
    if parameters.has_output_parser and not parsers:
        ctx.note("parameter 'hasOutputParser' is on, but no output parser is connected: the answer stays as it is")
    parser = parsers[0].value if parsers else None
    # an answer that is read by a parser is not one to be read word by word
    speech = Speech(ctx, index, text=options.enable_streaming and parser is None)
    loop = AgentLoop(
        ctx=ctx,
        item_index=index,
        asking=Asking(ctx, models[: 2 if parameters.needs_fallback else 1], speech),
        tools=await ctx.supplied(TOOL, index),
        memory=_memory(memories, options.max_tokens_from_memory, models[0].value.name),
        max_iterations=options.max_iterations,
        parser=parser,
    )
    system = _text(options.system_message)
    if parser is not None:
        system = "\n\n".join(filter(None, (system, instructions(parser))))
    reply = await loop.run(system, prompt)
    output: dict[str, Any] = {"output": reply.text if parser is None or reply.withheld else loop.value}
    if reply.cut:
        output["finishReason"] = reply.cut
    if loop.remembered:
        output["memory"] = loop.remembered
    if options.return_intermediate_steps:
        output["intermediateSteps"] = loop.intermediate_steps()
    return Item(output, paired_item=index)


def _memory(supplied: Sequence[Supplied[Memory]], most_tokens: int, model: str) -> Supplied[Memory] | None:
    if not supplied or not most_tokens:
        return supplied[0] if supplied else None
    size = partial(count_turn, model=model)
    return Supplied(supplied[0].node, supplied[0].kind, FittedView(supplied[0].value, most_tokens, size, how(model)))


def _prompt(ctx: RunContext[AgentParameters], parameters: AgentParameters, index: int) -> str:
    """The user message: parameter `text` where it is chosen, or given as before there was a choice, else the chat's."""
    if parameters.prompt_type == "define" or (not parameters.prompt_type and parameters.text is not None):
        prompt, where = parameters.text, "parameter 'text' is empty"
    else:
        # where a node in between has dropped it, it is still the message that the chat waits for an answer to
        message = ctx.started_with.get("chatInput") if len(ctx.items) == 1 else None
        prompt = ctx.items[index].json.get("chatInput", message)
        where = "the input has no 'chatInput'"
    if isinstance(prompt, dict | list):
        raise NodeFailed(f"the prompt must be a text, not {'an object' if isinstance(prompt, dict) else 'a list'}")
    if not (text := _text(prompt)).strip():
        raise NodeFailed(f"no prompt: {where}")
    return text


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else str(value)
