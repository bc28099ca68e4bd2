"""Who listens to a run. The chunk handler is there only where somebody reads the stream."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from convoq.contract.execution import Cancellation
from convoq.contract.response import HttpResponse
from convoq.contract.run_data import NodeRun
from convoq.protocol import Begin, End, Error, Item, Metadata, Reasoning

StreamChunk = Begin | Item | Reasoning | End | Error


@dataclass(slots=True)
class Hooks:
    """`send_chunk` gets chunks without numbers (`seq` is -1): whoever writes the stream numbers them.

    `node_started` and `node_finished` get every node run, sub-nodes' too, before and after. `before_effect` is awaited
    before something is done that must not be done twice. `respond` is there where the client waits for an answer that
    a node makes; `responded` tells that it has it, or its texts in the stream. `cancellation` is the signal that the
    run is to end. `reasoning` tells that the client asked for what models think. What went through `emit` is
    remembered: the segments still open, all texts streamed, and the thoughts where nobody reads a stream.
    """

    send_chunk: Callable[[StreamChunk], Awaitable[None]] | None = None
    node_started: Callable[[NodeRun], None] | None = None
    node_finished: Callable[[NodeRun], None] | None = None
    before_effect: Callable[[], Awaitable[None]] | None = None
    respond: Callable[[HttpResponse], Awaitable[None]] | None = None
    responded: bool = False
    cancellation: Cancellation = field(default_factory=Cancellation)
    reasoning: bool = False
    thoughts: list[str] = field(default_factory=list, init=False)
    texts: set[str] = field(default_factory=set, init=False)
    _open: dict[tuple[str, int, int], tuple[Metadata, list[str]]] = field(default_factory=dict, init=False)

    def is_streaming(self) -> bool:
        return self.send_chunk is not None

    @property
    def streamed(self) -> bool:
        """Whether any text has gone out."""
        return bool(self.texts) or any(pieces for _, pieces in self._open.values())

    @property
    def text(self) -> str:
        """What was said in the segments that are still open: an answer that was cut off."""
        return "".join(piece for _, pieces in self._open.values() for piece in pieces)

    @property
    def open_segments(self) -> list[Metadata]:
        return [metadata for metadata, _ in self._open.values()]

    async def emit(self, chunk: StreamChunk) -> None:
        """Hand a chunk on, if anybody listens. Raises what the handler raises: `Fenced`, `StreamTooLarge`."""
        if self.send_chunk is None:
            if isinstance(chunk, Reasoning):
                self.thoughts.append(chunk.content)
            return
        metadata = chunk.metadata
        key = (metadata.node_id, metadata.run_index, metadata.item_index)
        if isinstance(chunk, Item):
            if chunk.content and (segment := self._open.get(key)) is not None:
                segment[1].append(chunk.content)
        elif isinstance(chunk, Begin):
            self._open[key] = (metadata, [])
        elif isinstance(chunk, End) and (segment := self._open.pop(key, None)) is not None and segment[1]:
            self.texts.add("".join(segment[1]).strip())
        await self.send_chunk(chunk)

    async def end_segments(self, timestamp: int) -> None:
        """Close what a failed node left open."""
        for metadata in self.open_segments:
            await self.emit(End(at(metadata, timestamp)))


def at(metadata: Metadata, timestamp: int) -> Metadata:
    """The same place at another time (milliseconds since 1970)."""
    return Metadata(metadata.node_id, metadata.node_name, metadata.item_index, metadata.run_index, timestamp)
