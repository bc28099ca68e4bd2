"""The wire: every line a client can read, one type each, no logic.

A streamed answer is NDJSON, one object per line: `begin` and `end` enclose one model call that emits text, `item` is a
piece of it, `reasoning` (for who asked for it) a piece of what the model thinks. The last line of every answer is an
`end`; an `error` always has content and is followed by an `end`. Clients ignore the types they do not know
(`keepalive`, `queued`, `retry`, `response`). The shape is n8n's `StructuredChunk`, with `seq` added: gap-free from 0
within one execution (a `keepalive` has none, it is not part of the log).
"""

from __future__ import annotations

from typing import Literal

import msgspec
from msgspec import UNSET, UnsetType

Cut = Literal["length", "content_filter"]
"""Why an answer is not all that the model would have said: its limit of tokens, the provider's content filter."""
Kept = Literal["shortened"]
"""How the memory keeps an answer that it cannot keep whole."""


class Metadata(msgspec.Struct, rename="camel"):
    """Which node run a chunk belongs to. `timestamp` is in milliseconds since 1970; `finish_reason` is there at the
    `end` of a text that was cut off, `memory` at that of one which is larger than what is remembered of a text."""

    node_id: str
    node_name: str
    item_index: int = 0
    run_index: int = 0
    timestamp: int = 0
    finish_reason: Cut | UnsetType = UNSET
    memory: Kept | UnsetType = UNSET


class Chunk(msgspec.Struct, omit_defaults=True, tag_field="type"):
    pass


class Begin(Chunk, tag="begin"):
    metadata: Metadata
    seq: int = -1


class Item(Chunk, tag="item"):
    content: str
    metadata: Metadata
    seq: int = -1


class Reasoning(Chunk, tag="reasoning"):
    content: str
    metadata: Metadata
    seq: int = -1


class End(Chunk, tag="end"):
    metadata: Metadata
    seq: int = -1


class Error(Chunk, tag="error"):
    """`content` says what went wrong; `code` is that of `convoq.errors`."""

    content: str
    code: str
    metadata: Metadata
    seq: int = -1


class Response(Chunk, tag="response"):
    """The HTTP answer that a node of the workflow made for a client that does not read the stream. Names of `headers`
    are lower-case; `file` is the id of the file that is its body."""

    status: int
    headers: dict[str, str]
    body: str = ""
    file: str = ""
    seq: int = -1


class Queued(Chunk, tag="queued"):
    """The message waits behind `position` others of its session."""

    position: int
    seq: int = -1


class Retry(Chunk, tag="retry"):
    """The worker was lost before anything was emitted; `attempt` (from 2) starts again elsewhere."""

    attempt: int
    seq: int = -1


class Keepalive(Chunk, tag="keepalive"):
    pass


type_of_line = Begin | Item | Reasoning | End | Error | Response | Queued | Retry | Keepalive
encode_line = msgspec.json.Encoder().encode
decode_line = msgspec.json.Decoder(type_of_line).decode
