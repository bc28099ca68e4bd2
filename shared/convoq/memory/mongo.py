"""n8n's collection of chat histories in MongoDB. Needs pymongo (extra `mongo`).

{"sessionId", "messages": [{"type", "data"}, …]}      one document a session
"""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import structlog

from convoq import addresses
from convoq.contract.memory import History, Turn, check_size
from convoq.errors import MemoryFailed, MemoryUnavailable, NodeFailed
from convoq.memory.claims import ClaimedMemory, Claims
from convoq.memory.n8n_messages import MARK, read_turns, stored_messages
from convoq.memory.patience import Trouble, Troubled, patiently
from convoq.memory.repair import sendable
from convoq.memory.servers import CONNECT_S, IDLE_S, MAX_CONNECTIONS, REPLY_S, MongoCredential

if TYPE_CHECKING:
    from pymongo import AsyncMongoClient

T = TypeVar("T")
log = structlog.get_logger()

SELECT_S = 3.0
"""For a server to be found at one try: pymongo goes on connecting meanwhile and in between."""
INDEX_MS = 10_000
"""An index that takes longer is left to people: meanwhile nobody would be answered."""
CLAIMS = f"{MARK}.claims"
PASSING = frozenset((6, 7, 89, 91, 112, 189, 262, 9001, 11600, 11602))
"""MongoDB's codes for what stops, steps down or gets in its own way."""
TOO_LARGE = frozenset((10334, 17419, 17420))
"""MongoDB's codes for a document over its 16 MB."""


def connect(credential: MongoCredential) -> AsyncMongoClient[dict[str, Any]]:
    try:
        from pymongo import AsyncMongoClient
        from pymongo.errors import PyMongoError
    except ImportError:
        raise NodeFailed("MongoDB Chat Memory needs the extra 'mongo': pip install 'convoq[mongo]'") from None
    host, port, who = credential.address()
    if wrong := addresses.fault(host):
        raise NodeFailed(f"credential of type 'mongoDb': {addresses.shown(host)!r}: {wrong}")
    options: dict[str, Any] = {
        "maxPoolSize": MAX_CONNECTIONS,
        "maxIdleTimeMS": IDLE_S * 1000,
        "serverSelectionTimeoutMS": SELECT_S * 1000,
        "connectTimeoutMS": CONNECT_S * 1000,
        "socketTimeoutMS": REPLY_S * 1000,
        "appname": "convoq",
        **who,
    }
    if credential.tls:
        options["tls"] = True
    if credential.passphrase:
        options["tlsCertificateKeyFilePassword"] = credential.passphrase
    folder = TemporaryDirectory(prefix="convoq-mongo-")  # pymongo takes certificates as files, and may read them again
    try:
        for option, pem in credential.pems().items():
            options[option] = f"{folder.name}/{option}"
            Path(options[option]).write_text(pem)
        client: AsyncMongoClient[dict[str, Any]] = AsyncMongoClient(host, port, **options)
    except (PyMongoError, ValueError, OSError) as error:
        folder.cleanup()
        raise NodeFailed(f"credential of type 'mongoDb': {type(error).__name__}") from None
    weakref.finalize(client, folder.cleanup)
    return client


class MongoCollection:
    def __init__(
        self, client: AsyncMongoClient[dict[str, Any]], database: str, name: str, *, patience_s: float
    ) -> None:
        if not database:
            raise NodeFailed("no MongoDB database: give the parameter 'databaseName', or the credential a database")
        self.name = f"{database}.{name}"
        self._collection = client[database][name]
        self._patience_s = patience_s
        self._ready = False
        self._lock = asyncio.Lock()

    async def run(self, call: Callable[[Any], Awaitable[T]], *, again: bool = True) -> T:
        """`call` is given pymongo's collection; `again`: whether it may be called twice. Raises pymongo's errors,
        `Troubled`."""

        async def once() -> T:
            return await call(await self.open())

        return await patiently(once, trouble, patience_s=self._patience_s, again=again)

    async def open(self) -> Any:
        """With the index that n8n lacks: unique, so that two first turns at once do not begin two documents."""
        from pymongo.errors import OperationFailure

        async with self._lock:
            if not self._ready:
                try:
                    await self._collection.create_index(
                        "sessionId", unique=True, name=f"{MARK}_session", maxTimeMS=INDEX_MS
                    )
                except OperationFailure as error:
                    log.warning("mongodb memory works without an index", collection=self.name, code=error.code)
                self._ready = True
        return self._collection


class MongoMemory(ClaimedMemory):
    """Never trimmed, as in n8n: a session ends at MongoDB's 16 MB. Claims lie in the session's document, as
    `{"convoq": {"claims": [claim, …]}}`."""

    def __init__(self, collection: MongoCollection, session: str, *, window: int, claims: Claims | None) -> None:
        super().__init__(claims)
        self.window = window
        self._collection = collection
        self._session = {"sessionId": session}

    async def _read(self) -> History:
        document = await self._run("read", lambda found: found.find_one(self._session, {"messages": 1}))
        messages = (document or {}).get("messages")
        turns, notes = read_turns(messages if isinstance(messages, list) else ())
        return sendable(turns[-self.window :], notes)

    async def append(self, turn: Turn) -> None:
        check_size(turn)
        push = {"$push": {"messages": {"$each": _storable(stored_messages(turn))}}}
        other = {f"messages.data.additional_kwargs.{MARK}.turn": {"$ne": turn.id}}

        async def step(claim: str | None) -> bool:
            if claim is None:
                await self._update({}, {"$setOnInsert": {"messages": []}}, upsert=True)
                return await self._update(other, push)
            mine, used = _used(claim)
            return await self._update({**mine, **other}, {**push, **used}) or await self._update(mine, used)

        await self._claimed(step)

    async def replace(self, turns: Sequence[Turn]) -> None:
        check_size(*turns)
        messages = _storable([message for turn in turns for message in stored_messages(turn)])

        async def step(claim: str | None) -> bool:
            mine, used = ({}, {}) if claim is None else _used(claim)
            if messages:
                change = {"$set": {"messages": messages}, **used}
                return await self._update(mine, change, upsert=claim is None, again=False)
            done = await self._run("write", lambda found: found.delete_many({**self._session, **mine}), again=False)
            return bool(done.deleted_count)

        await self._claimed(step)

    async def clear(self) -> None:
        await self.replace(())

    async def _claim(self, mine: str, *, begin: bool = False) -> Sequence[str]:
        """A session that is not there gets no claim when it is loaded: n8n would see a document without a turn."""
        leave, shown = {"$addToSet": {CLAIMS: mine}}, {CLAIMS: 1}
        document = await self._run(
            "read", lambda found: found.find_one_and_update(self._session, leave, projection=shown, upsert=begin)
        )
        found: Sequence[str] = (document or {}).get(MARK, {}).get("claims", ())
        return found

    async def _drop(self, gone: Sequence[str]) -> None:
        await self._update({}, {"$pull": {CLAIMS: {"$in": gone}}}, action="read")

    async def _update(
        self,
        where: Mapping[str, Any],
        change: Mapping[str, Any],
        *,
        upsert: bool = False,
        again: bool = True,
        action: str = "write",
    ) -> bool:
        where = {**self._session, **where}
        done = await self._run(action, lambda found: found.update_one(where, change, upsert=upsert), again=again)
        return bool(done.matched_count)

    async def _run(self, action: str, call: Callable[[Any], Awaitable[Any]], *, again: bool = True) -> Any:
        from pymongo.errors import PyMongoError

        try:
            return await self._collection.run(call, again=again)
        except (PyMongoError, Troubled) as error:
            self._fail(action, error)

    def _fail(self, action: str, error: Exception) -> NoReturn:
        where = f"session {self._session['sessionId']!r} in {self._collection.name}"
        if getattr(error, "code", None) in TOO_LARGE or type(error).__name__ == "DocumentTooLarge":
            raise MemoryFailed(
                f"the history of {where} is larger than 16 MB, which is all MongoDB keeps of a session: clear it"
            ) from error
        failed = MemoryUnavailable if isinstance(error, Troubled) else MemoryFailed
        raise failed(f"cannot {action} the memory of {where}: {error}") from error


def trouble(error: Exception) -> Trouble | None:
    from pymongo.errors import (
        AutoReconnect,
        NotPrimaryError,
        OperationFailure,
        ServerSelectionTimeoutError,
        WaitQueueTimeoutError,
    )

    match error:
        case ServerSelectionTimeoutError() | WaitQueueTimeoutError() if "CERTIFICATE" not in str(error):
            return Trouble("cannot be reached", undone=True)
        case NotPrimaryError():
            return Trouble("is read-only", undone=True)
        case AutoReconnect() if "CERTIFICATE" not in str(error):
            return Trouble("closed the connection")
        case OperationFailure(code=code) if code in PASSING:
            return Trouble("could not do it for now")
    return None


def _used(claim: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Where a claim stands, and how it is taken away."""
    return {CLAIMS: claim}, {"$pull": {CLAIMS: claim}}


def _storable(value: Any) -> Any:
    """BSON has no whole numbers over 64 bits, which become their text, and no NUL in a key."""
    if isinstance(value, dict):
        return {key.replace("\0", "\ufffd"): _storable(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_storable(inner) for inner in value]
    if isinstance(value, int) and not -(1 << 63) <= value < 1 << 63:
        return str(value)
    return value
