"""Summarization Chain: a summary of all that the items hold, in pieces that a model can take."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Literal

from convoq.contract.connections import DOCUMENT, TEXT_SPLITTER, ConnectionType
from convoq.contract.context import RunContext, Supplied
from convoq.contract.items import Item, Outputs
from convoq.contract.model import Model, UserMessage
from convoq.contract.node import MainNode
from convoq.contract.parameters import Parameters, parameter
from convoq.contract.per_item import per_item
from convoq.errors import NodeFailed
from convoq.nodes.chains.question import ask, models_for

SUMMARISE = "Sum up the text below in a few sentences. Write the summary only.\n\n<text>\n{text}\n</text>"
REFINE = """This is a summary of the first part of a longer text:
<summary>
{existing_answer}
</summary>

The text goes on:
<text>
{text}
</text>

Write a summary of both. If the second part adds nothing, repeat the first summary. Write the summary only."""
MAX_PIECES = 500


class Prompts(Parameters):
    summarization_method: Literal["map_reduce", "stuff", "refine"] = "map_reduce"
    prompt: str = SUMMARISE
    combine_map_prompt: str = SUMMARISE
    refine_question_prompt: str = SUMMARISE
    refine_prompt: str = REFINE


class Method(Parameters):
    values: Prompts = Prompts()


class SummarizationOptions(Parameters):
    summarization_method_and_prompts: Method = Method()


class SummarizationParameters(Parameters):
    operation_mode: Literal["nodeInputJson", "nodeInputBinary", "documentLoader"] = "nodeInputJson"
    chunking_mode: Literal["simple", "advanced"] = "simple"
    chunk_size: int = parameter(1000, ge=1)
    chunk_overlap: int = parameter(200, ge=0)
    options: SummarizationOptions = SummarizationOptions()


class SummarizationNode(MainNode[SummarizationParameters]):
    type = "@n8n/n8n-nodes-langchain.chainSummarization"
    versions = (2, 2.1)
    parameters_class = SummarizationParameters
    accepts = {  # noqa: RUF012
        ConnectionType.LANGUAGE_MODEL: True,
        ConnectionType.DOCUMENT: False,
        ConnectionType.TEXT_SPLITTER: False,
    }

    async def run(self, ctx: RunContext[SummarizationParameters]) -> Outputs:
        return await per_item(ctx, lambda index: _summary(ctx, index))


async def _summary(ctx: RunContext[SummarizationParameters], index: int) -> Item:
    parameters = await ctx.parameters(index)
    prompts = parameters.options.summarization_method_and_prompts.values
    models = await models_for(ctx, index)
    pieces = await _pieces(ctx, parameters, index)
    if not pieces:
        raise NodeFailed("there is nothing to be summed up")
    if len(pieces) > MAX_PIECES:
        raise NodeFailed(f"the text is cut into {len(pieces)} pieces ({MAX_PIECES} allowed): raise 'chunkSize'")
    if prompts.summarization_method == "refine":
        text = await _refined(ctx, models, prompts, pieces)
    elif prompts.summarization_method == "stuff" or len(pieces) == 1:
        text = await _ask(ctx, models, prompts.prompt, text="\n\n".join(pieces))
    else:
        parts = [await _ask(ctx, models, prompts.combine_map_prompt, text=piece) for piece in pieces]
        text = await _ask(ctx, models, prompts.prompt, text="\n\n".join(parts))
    found = {"output": {"text": text}} if ctx.node.type_version >= 2.1 else {"response": {"text": text}}
    return Item(found, paired_item=index)


async def _refined(
    ctx: RunContext[Any], models: Sequence[Supplied[Model]], prompts: Prompts, pieces: Sequence[str]
) -> str:
    text = await _ask(ctx, models, prompts.refine_question_prompt, text=pieces[0])
    for piece in pieces[1:]:
        text = await _ask(ctx, models, prompts.refine_prompt, text=piece, existing_answer=text)
    return text


async def _ask(ctx: RunContext[Any], models: Sequence[Supplied[Model]], prompt: str, **values: str) -> str:
    for name, value in values.items():
        prompt = prompt.replace("{" + name + "}", value)
    return (await ask(ctx, models, [UserMessage(prompt)])).strip()


async def _pieces(ctx: RunContext[Any], parameters: SummarizationParameters, index: int) -> Sequence[str]:
    if parameters.operation_mode == "documentLoader":
        loaders = await ctx.supplied(DOCUMENT, index)
        if not loaders:
            raise NodeFailed("no document loader is connected")
        return [document.text for document in await loaders[0].value.load(ctx.items[index], index)]
    if parameters.operation_mode == "nodeInputBinary":
        raise NodeFailed("parameter 'operationMode': files are summed up through a document loader only")
    text = json.dumps(ctx.items[index].json, ensure_ascii=False, indent=1, default=str)
    splitters = await ctx.supplied(TEXT_SPLITTER, index)
    if parameters.chunking_mode == "advanced" and splitters:
        return splitters[0].value.split(text)
    return cut(text, parameters.chunk_size, parameters.chunk_overlap)


def cut(text: str, size: int, overlap: int) -> list[str]:
    """Pieces of at most `size` characters, each but the first beginning with up to `overlap` of the one before; cut at
    the end of a paragraph, a line or a word where there is one in the second half."""
    pieces = []
    at = 0
    while at < len(text):
        end = min(len(text), at + size)
        if end < len(text):
            found = max(text.rfind(mark, at + size // 2, end) for mark in ("\n\n", "\n", " "))
            end = found + 1 if found >= 0 else end
        pieces.append(text[at:end].strip())
        at = end if end == len(text) else max(end - overlap, at + 1)
    return [piece for piece in pieces if piece]
