"""n8n's collection of chat histories in MongoDB. Needs pymongo (extra `mongo`).

{"sessionId", "messages": [{"type", "data"}, …]}      one document a session
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import structlog

from convoq import addresses
from convoq.contract.memory import History, Turn, check_size
from convoq.errors import MemoryFailed, NodeFailed
from convoq.memory.n8n_messages import MARK, read_turns, stored_messages
from convoq.memory.redis_list import BeforeWrite
from convoq.memory.repair import sendable
from convoq.memory.servers import CONNECT_S, MAX_CONNECTIONS, REPLY_S, MongoCredential

if TYPE_CHECKING:
    from pymongo import AsyncMongoClient

log = structlog.get_logger()

TOO_LARGE = frozenset((10334, 17419, 17420))
"""MongoDB's codes for a document over its 16 MB."""


def connect(credential: MongoCredential) -> AsyncMongoClient[dict[str, Any]]:
    try:
        from pymongo import AsyncMongoClient
        from pymongo.errors import PyMongoError
    except ImportError:
        raise NodeFailed("MongoDB Chat Memory needs the extra 'mongo': pip install 'convoq[mongo]'") from None
    options: dict[str, Any] = {
        "maxPoolSize": MAX_CONNECTIONS,
        "serverSelectionTimeoutMS": CONNECT_S * 1000,
        "socketTimeoutMS": REPLY_S * 1000,
        "appname": "convoq",
    }
    if credential.user and not credential.connection_string:
        options |= {"username": credential.user, "password": credential.password}
    address = credential.connection_string or credential.host
    if wrong := addresses.fault(address):
        raise NodeFailed(f"credential of type 'mongoDb': {addresses.shown(address)!r}: {wrong}")
    try:
        return AsyncMongoClient(address, credential.port, **options)
    except (PyMongoError, ValueError) as error:
        raise NodeFailed(f"credential of type 'mongoDb': {type(error).__name__}") from None


class MongoCollection:
    def __init__(self, client: AsyncMongoClient[dict[str, Any]], database: str, name: str) -> None:
        if not database:
            raise NodeFailed("no MongoDB database: give the parameter 'databaseName', or the credential a database")
        self.name = f"{database}.{name}"
        self._collection = client[database][name]
        self._ready = False
        self._lock = asyncio.Lock()

    async def open(self) -> Any:
        """With the index that n8n lacks: unique, so that two first turns at once do not begin two documents."""
        from pymongo.errors import OperationFailure

        async with self._lock:
            if not self._ready:
                try:
                    await self._collection.create_index("sessionId", unique=True, name=f"{MARK}_session")
                except OperationFailure as error:
                    log.warning("mongodb memory works without an index", collection=self.name, code=error.code)
                self._ready = True
        return self._collection


class MongoMemory:
    """Never trimmed, as in n8n: a session ends at MongoDB's 16 MB. `before_write` as in `convoq.memory.redis_list`."""

    def __init__(self, collection: MongoCollection, session: str, *, window: int, before_write: BeforeWrite) -> None:
        self.window = window
        self._collection = collection
        self._session = {"sessionId": session}
        self._before_write = before_write

    async def load(self) -> History:
        from pymongo.errors import PyMongoError

        try:
            collection = await self._collection.open()
            document = await collection.find_one(self._session, {"messages": 1})
        except PyMongoError as error:
            self._fail("read", error)
        messages = (document or {}).get("messages")
        turns, notes = read_turns(messages if isinstance(messages, list) else ())
        return sendable(turns[-self.window :], notes)

    async def append(self, turn: Turn) -> None:
        check_size(turn)
        from pymongo.errors import PyMongoError

        other = {**self._session, f"messages.data.additional_kwargs.{MARK}.turn": {"$ne": turn.id}}
        push = {"$push": {"messages": {"$each": _storable(stored_messages(turn))}}}
        await self._before_write()
        try:
            collection = await self._collection.open()
            if (await collection.update_one(other, push)).matched_count == 0:
                # The turn is there, or the session is not; begun without messages it takes the turn once, as any does.
                await collection.update_one(self._session, {"$setOnInsert": {"messages": []}}, upsert=True)
                await collection.update_one(other, push)
        except PyMongoError as error:
            self._fail("write", error)

    async def replace(self, turns: Sequence[Turn]) -> None:
        check_size(*turns)
        from pymongo.errors import PyMongoError

        messages = _storable([message for turn in turns for message in stored_messages(turn)])
        await self._before_write()
        try:
            collection = await self._collection.open()
            if messages:
                await collection.update_one(self._session, {"$set": {"messages": messages}}, upsert=True)
            else:
                await collection.delete_many(self._session)
        except PyMongoError as error:
            self._fail("write", error)

    async def clear(self) -> None:
        await self.replace(())

    def _fail(self, action: str, error: Exception) -> NoReturn:
        where = f"session {self._session['sessionId']!r} in {self._collection.name}"
        if getattr(error, "code", None) in TOO_LARGE or type(error).__name__ == "DocumentTooLarge":
            raise MemoryFailed(
                f"the history of {where} is larger than 16 MB, which is all MongoDB keeps of a session: clear it"
            ) from error
        raise MemoryFailed(f"cannot {action} the memory of {where}: {error}") from error


def _storable(value: Any) -> Any:
    """BSON has no whole numbers over 64 bits, which become their text, and no NUL in a key."""
    if isinstance(value, dict):
        return {key.replace("\0", "\ufffd"): _storable(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_storable(inner) for inner in value]
    if isinstance(value, int) and not -(1 << 63) <= value < 1 << 63:
        return str(value)
    return value
