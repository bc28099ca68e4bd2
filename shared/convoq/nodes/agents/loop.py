"""The agent's loop: ask the model, run the tools that it asks for, tell it the results, until it answers."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from convoq.contract.context import RunContext, Supplied
from convoq.contract.memory import History, Memory, Step, ToolUse, Turn
from convoq.contract.model import AssistantMessage, Message, SystemMessage, ToolCall, ToolSpec, UserMessage
from convoq.contract.parser import OutputParser
from convoq.contract.tool import Tool, tool_name, unique_names
from convoq.errors import NodeFailed, ToolFailed, TooManyIterations
from convoq.memory.shortening import shortened
from convoq.models.asking import SHOWN_CHARS, Asking
from convoq.models.hearing import Reply
from convoq.nodes.agents.final_answer import as_text, final_tool, final_value, is_final
from convoq.protocol import Kept

MAX_RESULT_CHARS = 100_000
"""Of all tool results of one turn together."""


@dataclass(slots=True)
class AgentLoop:
    """One item's turn."""

    ctx: RunContext[Any]
    item_index: int
    asking: Asking
    tools: Sequence[Supplied[Tool]]
    memory: Supplied[Memory] | None
    max_iterations: int
    parser: OutputParser | None = None
    value: Any = None
    """What the parser made of the final answer."""
    remembered: Kept | None = None
    steps: list[Step] = field(default_factory=list)
    _named: dict[str, Supplied[Tool]] = field(default_factory=dict)
    _specs: list[ToolSpec] = field(default_factory=list)
    _result_chars: int = 0

    def __post_init__(self) -> None:
        specs = [supplied.value.spec for supplied in self.tools]
        for name, spec, supplied in zip(unique_names([spec.name for spec in specs]), specs, self.tools, strict=True):
            self._named[name] = supplied
            self._specs.append(ToolSpec(name, spec.description, spec.parameters))
        if self.parser is not None and (final := final_tool(self.parser)) is not None:
            self._specs.append(final)

    async def run(self, system: str, prompt: str) -> Reply:
        """The final answer, remembered before the client is told that it is whole. A turn that fails leaves no trace,
        nor does one whose answer was withheld: its prompt would have the next one withheld, too. Of one that a person
        stopped, what was said so far is kept, marked as cut off.

        Raises `TooManyIterations` and what models, tools and the memory raise.
        """
        started = self.ctx.services.clock()
        history = [message for turn in await self._load() for message in turn.messages()]
        told = [message.content for message in history if isinstance(message, SystemMessage)]
        messages: list[Message] = (
            [SystemMessage("\n\n".join([system, *told] if system else told))] if system or told else []
        )
        messages.extend(message for message in history if not isinstance(message, SystemMessage))
        messages.append(UserMessage(prompt))
        try:
            return await self._answer(messages, prompt, started)
        except asyncio.CancelledError:
            if self.ctx.cancellation.by_person and self.memory and (self.steps or self.asking.said):
                turn = self._turn(prompt, "".join(self.asking.said), started)
                await self._remember(msgspec.structs.replace(turn, cut_off=True))
            raise

    async def answer(self, messages: Sequence[Message]) -> Reply:
        """The final answer to messages as they are, without a memory."""
        return await self._answer(list(messages), "", self.ctx.services.clock())

    async def _load(self) -> Sequence[Turn]:
        if self.memory is None:
            return ()
        async with self.ctx.sub_run(self.memory, {"action": "load"}) as run:
            turns = await self.memory.value.load()
            notes = {"notes": list(turns.notes)} if isinstance(turns, History) and turns.notes else {}
            run.output({"turns": len(turns), **notes})
        return turns

    async def _remember(self, turn: Turn) -> None:
        """What is too large to be remembered is in short: it was said, and a client has read it."""
        if self.memory is None:
            return
        async with self.ctx.sub_run(self.memory, {"action": "append", "turn": turn.id}) as run:
            if (short := shortened(turn)) is not turn:
                self.remembered = "shortened"
                run.note("the turn is too large to be remembered whole: texts of it have a mark in their middle")
            await self.memory.value.append(short)

    async def _answer(self, messages: list[Message], prompt: str, started: float) -> Reply:
        for iteration in range(1, self.max_iterations + 1):
            reply = await self.asking.ask(messages, self._specs)
            if not reply.calls or (self.parser is not None and is_final(reply)):
                text = reply.text
                if self.parser is not None and not reply.withheld:
                    self.value = await final_value(self.parser, reply)
                    text = as_text(self.value)
                if not reply.withheld:
                    await self._remember(self._turn(prompt, text, started))
                await self.asking.end(reply, self.remembered)
                return reply
            await self.asking.end(reply)
            if iteration < self.max_iterations:
                self.asking.said = []
                step = Step(reply.text, await self._use_all(reply))
                self.steps.append(step)
                asked, *results = step.messages()
                if isinstance(asked, AssistantMessage):
                    asked = msgspec.structs.replace(asked, reasoning=reply.reasoning)
                messages += asked, *results
        raise TooManyIterations(
            f"no answer after {self.max_iterations} model calls, each of which asked for tools: "
            "raise the option 'Max Iterations' or look at what the tools return"
        )

    def intermediate_steps(self) -> list[dict[str, Any]]:
        """n8n's form: `{"action": {"tool", "toolInput", "toolCallId", "log"}, "observation"}` for each call."""
        return [
            {
                "action": {
                    "tool": use.name,
                    "toolInput": _object(use.arguments) or {},
                    "toolCallId": use.id,
                    "log": f"{step.text}\n" * bool(step.text) + f"Calling {use.name} with {use.arguments}",
                },
                "observation": use.result,
            }
            for step in self.steps
            for use in step.calls
        ]

    def _turn(self, prompt: str, answer: str, started: float) -> Turn:
        ctx = self.ctx
        return Turn(
            id=f"{ctx.execution.id}:{ctx.node.name}:{ctx.run_index}:{self.item_index}",
            user=prompt,
            answer=answer,
            steps=tuple(self.steps),
            started=started,
            ended=ctx.services.clock(),
        )

    async def _use_all(self, reply: Reply) -> tuple[ToolUse, ...]:
        """The calls of one reply run side by side. What ends the run ends the others, too."""
        cut_off = reply.cut == "length"
        if len(reply.calls) == 1:
            uses = [await self._use(reply.calls[0], cut_off=cut_off)]
        else:
            try:
                async with asyncio.TaskGroup() as group:
                    tasks = [group.create_task(self._use(call, cut_off=cut_off)) for call in reply.calls]
            except* Exception as errors:
                raise errors.exceptions[0] from None
            uses = [task.result() for task in tasks]
        return tuple(msgspec.structs.replace(use, result=self._cut(use.result)) for use in uses)

    async def _use(self, call: ToolCall, *, cut_off: bool) -> ToolUse:
        """Run a tool. What goes wrong is told to the model, unless the tool's node is set to stop the workflow."""
        supplied = self._named.get(call.name)
        arguments = _object(call.arguments)
        sendable = "{}" if arguments is None else call.arguments  # providers refuse a history that is not JSON
        if supplied is None:
            known = ", ".join(self._named) or "none"
            result = f"Error: there is no tool named {call.name[:100]!r}. Available tools: {known}."
            return ToolUse(call.id, tool_name(call.name), sendable, result, failed=True)
        failed = False
        try:
            given = arguments if arguments is not None else {"arguments": call.arguments[:SHOWN_CHARS]}
            async with self.ctx.sub_run(supplied, given) as run:
                if not supplied.value.pure:
                    await self.ctx.before_effect()
                if arguments is None:
                    why = ", they were cut off at the model's limit of tokens" * cut_off
                    raise ToolFailed(f"the arguments are not a JSON object{why}: {call.arguments[:200]!r}")
                result = await supplied.value.call(arguments)
                run.output({"response": result})
        except NodeFailed as error:
            node = supplied.node
            if node.on_error == "stopWorkflow" and "on_error" in node.model_fields_set:
                raise
            failed, result = True, f"Error: {error.message}"
        return ToolUse(call.id, call.name, sendable, result, failed)

    def _cut(self, result: str) -> str:
        room = MAX_RESULT_CHARS - self._result_chars
        self._result_chars += min(len(result), room)
        if len(result) <= room:
            return result
        return f"{result[:room]}\n[cut off: {len(result) - room} of {len(result)} characters are left out]"


def _object(arguments: str) -> Mapping[str, Any] | None:
    """The JSON object that the model wrote, None where it is something else."""
    try:
        value = msgspec.json.decode(arguments or "{}")
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None
    return value if isinstance(value, dict) else None
