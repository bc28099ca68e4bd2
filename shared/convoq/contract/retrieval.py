"""Documents, and what finds them again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import msgspec

from convoq.contract.items import Item

Vector = Sequence[float]


class Document(msgspec.Struct, frozen=True):
    """A piece of text. `metadata` is JSON; `id` is that of the store that holds it, empty before it is stored."""

    text: str
    metadata: dict[str, Any] = {}
    id: str = ""


class Found(msgspec.Struct, frozen=True):
    """A document and how well it fits: from 0 (not at all) to 1."""

    document: Document
    score: float


class Embeddings(Protocol):
    """`embed` gives one vector a text, in order, all of the same length. Raises `ModelFailed`."""

    name: str

    async def embed(self, texts: Sequence[str]) -> Sequence[Vector]: ...


class VectorStore(Protocol):
    """One collection with the embeddings that it was filled with. All raise `StoreFailed`.

    `add` gives the ids, in order; a document that has an id replaces the one of that id. `search` gives the `limit`
    best, the best first; `where` is a filter on metadata, by equality.
    """

    async def add(self, documents: Sequence[Document]) -> Sequence[str]: ...

    async def search(self, query: str, limit: int, where: Mapping[str, Any] | None = None) -> Sequence[Found]: ...

    async def clear(self) -> None: ...


class Retriever(Protocol):
    async def retrieve(self, query: str) -> Sequence[Found]: ...


class DocumentLoader(Protocol):
    """Makes documents of one item (its JSON or its files), cut by the splitter that is connected."""

    async def load(self, item: Item, item_index: int) -> Sequence[Document]: ...


class TextSplitter(Protocol):
    def split(self, text: str) -> Sequence[str]: ...


class Reranker(Protocol):
    """`rerank` gives the same documents in a better order, the best first, at most `limit`."""

    async def rerank(self, query: str, found: Sequence[Found], limit: int) -> Sequence[Found]: ...
