"""The kinds of connection between nodes, and what comes over each."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, TypeVar

from convoq.contract.chains import Chain
from convoq.contract.memory import Memory
from convoq.contract.model import Model
from convoq.contract.parser import OutputParser
from convoq.contract.retrieval import DocumentLoader, Embeddings, Reranker, Retriever, TextSplitter, VectorStore
from convoq.contract.tool import Tool

T_co = TypeVar("T_co", covariant=True)


class ConnectionType(StrEnum):
    """As n8n's files name them. Of all but `main` the sub-node is the source."""

    MAIN = "main"
    LANGUAGE_MODEL = "ai_languageModel"
    MEMORY = "ai_memory"
    TOOL = "ai_tool"
    OUTPUT_PARSER = "ai_outputParser"
    RETRIEVER = "ai_retriever"
    VECTOR_STORE = "ai_vectorStore"
    EMBEDDING = "ai_embedding"
    DOCUMENT = "ai_document"
    TEXT_SPLITTER = "ai_textSplitter"
    RERANKER = "ai_reranker"
    CHAIN = "ai_chain"
    AGENT = "ai_agent"


@dataclass(frozen=True, slots=True)
class Kind(Generic[T_co]):
    """A connection type together with the protocol of what a sub-node supplies over it."""

    type: ConnectionType


MODEL: Kind[Model] = Kind(ConnectionType.LANGUAGE_MODEL)
MEMORY: Kind[Memory] = Kind(ConnectionType.MEMORY)
TOOL: Kind[Tool] = Kind(ConnectionType.TOOL)
OUTPUT_PARSER: Kind[OutputParser] = Kind(ConnectionType.OUTPUT_PARSER)
RETRIEVER: Kind[Retriever] = Kind(ConnectionType.RETRIEVER)
VECTOR_STORE: Kind[VectorStore] = Kind(ConnectionType.VECTOR_STORE)
EMBEDDING: Kind[Embeddings] = Kind(ConnectionType.EMBEDDING)
DOCUMENT: Kind[DocumentLoader] = Kind(ConnectionType.DOCUMENT)
TEXT_SPLITTER: Kind[TextSplitter] = Kind(ConnectionType.TEXT_SPLITTER)
RERANKER: Kind[Reranker] = Kind(ConnectionType.RERANKER)
CHAIN: Kind[Chain] = Kind(ConnectionType.CHAIN)
AGENT: Kind[Chain] = Kind(ConnectionType.AGENT)
