"""Question and Answer Chain: a question answered from what a retriever finds."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import AliasChoices

from convoq.contract.connections import RETRIEVER, ConnectionType
from convoq.contract.context import RunContext
from convoq.contract.items import Item, Outputs
from convoq.contract.model import SystemMessage, UserMessage
from convoq.contract.node import MainNode
from convoq.contract.parameters import Parameters, parameter
from convoq.contract.per_item import per_item
from convoq.errors import NodeFailed
from convoq.nodes.chains.question import ask, models_for, text_of

PROMPT = (
    "Answer the user's question from the context below, which was found for it. If the answer is not in it, say that "
    "you do not know.\n\n<context>\n{context}\n</context>"
)


class RetrievalOptions(Parameters):
    system_prompt_template: str = PROMPT


class RetrievalParameters(Parameters):
    prompt_type: Literal["", "auto", "define", "guardrails"] = ""
    text: Any = parameter(None, validation_alias=AliasChoices("text", "query"))
    options: RetrievalOptions = RetrievalOptions()


class RetrievalQANode(MainNode[RetrievalParameters]):
    type = "@n8n/n8n-nodes-langchain.chainRetrievalQa"
    versions = (1, 1.7)
    parameters_class = RetrievalParameters
    accepts = {ConnectionType.LANGUAGE_MODEL: True, ConnectionType.RETRIEVER: True}  # noqa: RUF012

    async def run(self, ctx: RunContext[RetrievalParameters]) -> Outputs:
        return await per_item(ctx, lambda index: _answer(ctx, index))


async def _answer(ctx: RunContext[RetrievalParameters], index: int) -> Item:
    parameters = await ctx.parameters(index)
    given = ctx.items[index].json
    defined = parameters.prompt_type == "define" or (not parameters.prompt_type and parameters.text is not None)
    question = text_of(parameters.text if defined else given.get("chatInput", given.get("input")), "the question")
    retrievers = await ctx.supplied(RETRIEVER, index)
    if not retrievers:
        raise NodeFailed("no retriever is connected")
    async with ctx.sub_run(retrievers[0], {"query": question}) as run:
        found = await retrievers[0].value.retrieve(question)
        run.output(
            *({"text": one.document.text, "metadata": one.document.metadata, "score": one.score} for one in found)
        )
    context = "\n\n".join(one.document.text for one in found)
    system = parameters.options.system_prompt_template.replace("{context}", context)
    answer = await ask(ctx, await models_for(ctx, index), [SystemMessage(system), UserMessage(question)])
    return Item(
        {"response": answer} if ctx.node.type_version >= 1.5 else {"response": {"text": answer}}, paired_item=index
    )
