"""Connections to a PostgreSQL server, or to a pooler before it. Needs asyncpg (extra `postgres`)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from ssl import SSLCertVerificationError
from typing import TYPE_CHECKING, Any, TypeVar

from convoq.errors import NodeFailed
from convoq.memory.patience import NotConnected, Trouble, patiently
from convoq.memory.servers import CONNECT_S, IDLE_S, MAX_CONNECTIONS, REPLY_S, PostgresCredential

if TYPE_CHECKING:
    import asyncpg

T = TypeVar("T")


async def connect(credential: PostgresCredential, patience_s: float) -> PostgresPool:
    """Without named statements, for behind a pooler in transaction mode each may meet another server connection. It
    costs a direct connection a second round trip and the planning, 0.3 ms a statement."""
    try:
        import asyncpg
    except ImportError:
        raise NodeFailed("Postgres Chat Memory needs the extra 'postgres': pip install 'convoq[postgres]'") from None
    try:
        connections = await asyncpg.create_pool(
            host=credential.host,
            port=credential.port,
            database=credential.database,
            user=credential.user,
            password=credential.password or None,
            ssl=credential.tls(),
            min_size=0,
            max_size=min(credential.max_connections, MAX_CONNECTIONS),
            max_inactive_connection_lifetime=IDLE_S,
            statement_cache_size=0,
            timeout=CONNECT_S,
            command_timeout=REPLY_S,
            reset=_nothing_to_reset,
            server_settings={"application_name": "convoq"},
        )
    except ValueError as error:
        raise NodeFailed(f"credential of type 'postgres': {error}") from None
    return PostgresPool(connections, patience_s)


async def _nothing_to_reset(connection: object) -> None:
    """What runs here leaves nothing behind in a session; asyncpg's own reset is one more round trip a call."""


class PostgresPool:
    def __init__(self, connections: asyncpg.Pool, patience_s: float) -> None:
        self.connections = connections
        self._patience_s = patience_s

    async def run(self, call: Callable[[Any], Awaitable[T]], *, again: bool) -> T:
        """`call` is given a connection; `again`: whether it may be called twice. Raises asyncpg's errors, `OSError`,
        `Troubled`."""
        import asyncpg

        async def once() -> T:
            try:
                connection = await self.connections.acquire()
            except Exception as error:
                raise NotConnected from error
            try:
                return await call(connection)
            except asyncpg.ReadOnlySQLTransactionError:
                await self.connections.expire_connections()  # the address may lead to another server by now
                raise
            finally:
                await self.connections.release(connection)

        try:
            return await patiently(once, trouble, patience_s=self._patience_s, again=again)
        except NotConnected as error:
            assert error.__cause__ is not None
            raise error.__cause__ from None

    async def close(self) -> None:
        await self.connections.close()


def trouble(error: Exception) -> Trouble | None:
    import asyncpg

    undone = isinstance(error, NotConnected)
    match error.__cause__ if undone else error:
        case asyncpg.TooManyConnectionsError():
            return Trouble("takes no more connections", undone=True)
        case asyncpg.ReadOnlySQLTransactionError():
            return Trouble("is read-only", undone=True)
        case asyncpg.CannotConnectNowError() | asyncpg.AdminShutdownError() | asyncpg.CrashShutdownError():
            return Trouble("is starting or stopping", undone)
        case asyncpg.TransactionRollbackError() | asyncpg.InsufficientResourcesError():
            return Trouble("could not do it for now", undone=True)
        case asyncpg.UndefinedTableError():
            return Trouble("had lost the table", undone=True)
        case asyncpg.PostgresConnectionError() | asyncpg.InterfaceError(args=("connection is closed",)):
            return Trouble("closed the connection", undone)
        case SSLCertVerificationError():
            return None
        case ConnectionResetError() | BrokenPipeError():
            return Trouble("closed the connection", undone)
        case TimeoutError():
            return Trouble("does not answer", undone)
        case OSError() | asyncpg.InternalServerError() if undone:
            return Trouble("cannot be reached", undone)
    return None
