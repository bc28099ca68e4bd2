"""How a node asks its models: the one way for agents, chains and memories.

What all providers may do wrong is dealt with here, not in the nodes and not in the adapters: nothing at all for an
answer, reasoning within the text, an answer that is cut off or withheld, a model that fails while another stands by.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

import msgspec
import structlog

from convoq.contract.context import Context, Supplied
from convoq.contract.model import Message, Model, ToolSpec
from convoq.errors import EmptyAnswer, ModelFailed
from convoq.models.hearing import Hearing, Reply
from convoq.models.speech import Speech
from convoq.protocol import Kept

SHOWN_CHARS = 2_000
"""What the run data shows of one message to the model."""

log = structlog.get_logger()


@dataclass(slots=True)
class Asking:
    """`models` are tried in order, the next only where one failed before it said anything. A model that answers nothing
    is asked again (setting `model_empty_retries`).

    Each call of a model is a run of its node in the run data. `speech` is how its words reach the client, None where
    they are not for a client; its `end` is left to the node. `said` is what the model under way has said so far.
    """

    ctx: Context[Any]
    models: Sequence[Supplied[Model]]
    speech: Speech | None = None
    said: list[str] = field(default_factory=list)

    async def ask(
        self, messages: Sequence[Message], tools: Sequence[ToolSpec] = (), note: Mapping[str, Any] = {}
    ) -> Reply:
        """The reply, with `note` added in the run data. Raises what the last model that was asked raised."""
        tries = list(self._tries())
        while True:
            supplied, tries_left = tries.pop(0)
            hearing = Hearing()
            self.said = hearing.texts
            try:
                return await self._call(supplied, hearing, messages, tools, note)
            except ModelFailed as error:  # its run in the run data says why
                again = isinstance(error, EmptyAnswer) and error.details.get("finish_reason") != "length"
                del tries[: 0 if again else tries_left]
                final = hearing.spoke or not tries
                self._log("a model gave no answer", supplied, code=error.code, final=final)
                if final:
                    raise
            if self.speech is not None:
                await self.speech.end()  # of its reasoning

    async def end(self, reply: Reply, memory: Kept | None = None) -> None:
        """Tell the client that this reply is whole, as far as it goes, and how it is remembered where that is not."""
        if self.speech is not None:
            await self.speech.end(reply.cut, memory)

    def _tries(self) -> Iterator[tuple[Supplied[Model], int]]:
        """Each model as often as it may be asked, with how often it may be asked after that."""
        for supplied in self.models:
            for tries_left in range(self.ctx.services.settings.model_empty_retries, -1, -1):
                yield supplied, tries_left

    async def _call(
        self,
        supplied: Supplied[Model],
        hearing: Hearing,
        messages: Sequence[Message],
        tools: Sequence[ToolSpec],
        note: Mapping[str, Any],
    ) -> Reply:
        model, speech = supplied.value, self.speech
        given = {"messages": [_shown(message) for message in messages], "tools": [tool.name for tool in tools]}
        async with self.ctx.sub_run(supplied, given) as run:
            async with aclosing(model.stream(messages, tools, model.settings)) as deltas:
                async for delta in deltas:
                    for words in hearing.take(delta):
                        if speech is not None:
                            await speech.say(words)
            reply = hearing.reply()
            run.output({**reply.report(), **note}, tokens=reply.tokens)
            for sentence in reply.notes():
                run.note(sentence)
            reply.check(model.name)
        if reply.cut:
            self._log("an answer was cut off", supplied, finish_reason=reply.cut, withheld=reply.withheld)
        return reply

    def _log(self, event: str, supplied: Supplied[Model], **more: object) -> None:
        execution = self.ctx.execution
        log.warning(
            event,
            **{"execution": execution.id, "workflow": execution.workflow_id, "node": supplied.node.name},
            model=supplied.value.name,
            **more,
        )


def _shown(message: Message) -> dict[str, Any]:
    shown: dict[str, Any] = msgspec.to_builtins(message)
    shown.pop("reasoning", None)  # it is in the output of the call that thought it
    if len(message.content) > SHOWN_CHARS:
        shown["content"] = message.content[:SHOWN_CHARS] + "…"
    return shown
