"""The ASGI application: routes, one error handler, and what the process needs while it lives."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from traceback import clear_frames
from typing import NoReturn

import structlog
from redis.exceptions import RedisError
from starlette.applications import Starlette
from starlette.endpoints import HTTPEndpoint
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.requests import Request as HttpRequest
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from convoq.api import chat, credentials, executions, health, rest, sessions
from convoq.api.bodies import WholeBodies
from convoq.api.control import Control
from convoq.api.cors import PRIVATE, Cors
from convoq.api.relay import Hub
from convoq.api.state import State, settings_of
from convoq.api.triggers import Triggers
from convoq.api.words import Words
from convoq.contract.services import Services
from convoq.credentials.lookup import CredentialLookup
from convoq.delivery.admission import ChatQueue
from convoq.delivery.stopping import Stopper
from convoq.delivery.takeover import Takeover
from convoq.errors import ConvoqError, ExecutionFailed
from convoq.ids import new_execution_id
from convoq.memory.parts import MemoryParts
from convoq.memory.pools import Pools
from convoq.memory.redis_list import RedisMemories
from convoq.presence import Process, say_present
from convoq.redis import Arrival, Pipe, async_client, sync_client, unavailable
from convoq.settings import Settings
from convoq.store.binaries import RedisBinaries
from convoq.store.sessions import SessionStore
from convoq.store.workflows import WorkflowStore

log = structlog.get_logger()

ADMIT_AT_ONCE = 4


class Webhook(HTTPEndpoint):
    get, post = staticmethod(chat.show_page), staticmethod(chat.receive_message)


class Workflows(HTTPEndpoint):
    get, post = staticmethod(rest.list_workflows), staticmethod(rest.import_workflow)


class Credentials(HTTPEndpoint):
    get, post = staticmethod(credentials.list_credentials), staticmethod(credentials.add_credential)


class Sessions(HTTPEndpoint):
    get, delete = staticmethod(sessions.list_sessions), staticmethod(sessions.delete_sessions)


class Session(HTTPEndpoint):
    get, delete = staticmethod(sessions.get_session), staticmethod(sessions.delete_session)


ROUTES = [
    Route("/webhook/{path:path}", Webhook),
    Route("/executions/{id}/stream", executions.resume, methods=["GET"]),
    Route("/executions/{id}/stop", executions.stop, methods=["POST"]),
    Route("/healthz", health.alive, methods=["GET"]),
    Route("/readyz", health.ready, methods=["GET"]),
    Route("/api/v1/workflows", Workflows),
    Route("/api/v1/workflows/{id}", rest.get_workflow, methods=["GET"]),
    Route("/api/v1/workflows/{id}/sessions", Sessions),
    Route("/api/v1/workflows/{id}/sessions/{session:path}", Session),
    Route("/api/v1/credentials", Credentials),
    Route("/api/v1/credentials/{id}", credentials.remove_credential, methods=["DELETE"]),
    Route("/api/v1/executions/{id}", rest.get_execution, methods=["GET"]),
]


def create_app(settings: Settings, control: Control) -> ASGIApp:
    """Serves at once. Until Redis is there everything but `/healthz` answers 503."""

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        client = async_client(settings.redis_url)
        connection = sync_client(settings.redis_url)
        pipe = Pipe(client, patience_s=settings.redis_patience_s)
        hub = Hub(pipe, async_client(settings.redis_url), settings)
        store = WorkflowStore(client)
        queue = ChatQueue(pipe, connection, settings)
        services = Services(
            settings,
            RedisMemories(pipe),
            http=_no_http,
            credential=CredentialLookup(settings, pipe),
            binaries=RedisBinaries(pipe, settings),
            parts=[MemoryParts(pools=Pools(pipe, settings.redis_url))],
        )
        takeover = Takeover(pipe, connection, settings)
        stopper = Stopper(pipe, takeover, settings)
        app.state.convoq = state = State(
            settings,
            Arrival(settings.redis_url),
            pipe,
            hub,
            queue,
            store,
            Triggers(store),
            services,
            takeover,
            stopper,
            SessionStore(pipe, stopper, store, services),
            asyncio.Semaphore(ADMIT_AT_ONCE),
        )
        work = asyncio.create_task(_work(state, control))
        control.cut = hub.cut
        yield
        work.cancel()
        await asyncio.gather(work, return_exceptions=True)
        await services.close()
        await client.aclose()
        connection.close()

    app = Starlette(
        routes=ROUTES,
        lifespan=lifespan,
        exception_handlers={
            ConvoqError: failed,
            RedisError: unreachable,
            HTTPException: refused,
            ClientDisconnect: left,
            Exception: broken,
        },
    )
    return WholeBodies(Cors(app))


async def _work(state: State, control: Control) -> None:
    """What the process does besides answering, from Redis's arrival on."""
    try:
        await state.arrival.wait()
        async with state.pipe, state.hub:
            state.open.set()
            log.info("api takes messages", host=state.settings.host, port=state.settings.port)
            await asyncio.gather(state.takeover.watch(), say_present(state.pipe, Process.this("api")))
    except Exception as error:
        control.refuse(error)


def _no_http() -> NoReturn:
    raise ExecutionFailed("the API process calls no models")


async def failed(http: HttpRequest, error: Exception) -> Response:
    assert isinstance(error, ConvoqError)
    clear_frames(error.__traceback__)  # what of a body was read is not to wait with its answer
    reference = new_execution_id()
    if error.public is not None:
        log.warning("request failed", path=http.url.path, reference=reference, code=error.code, message=error.message)
    retry_after = error.details.get("retry_after")
    headers = None if retry_after is None else {"Retry-After": str(retry_after)}
    return JSONResponse(_words(http, reference).error(error.as_dict()), error.status, headers)


def _words(http: HttpRequest, reference: str) -> Words:
    """Who manages convoq is no stranger."""
    details = settings_of(http).error_details or http.url.path.startswith(PRIVATE)
    return Words(details, reference, of="reference")


async def unreachable(http: HttpRequest, error: Exception) -> Response:
    return await failed(http, unavailable(error))


async def refused(http: HttpRequest, error: Exception) -> Response:
    """Starlette's own refusals: no such route, wrong method."""
    assert isinstance(error, HTTPException)
    codes = {404: "not_found", 405: "method_not_allowed"}
    message = f"{http.method} {http.url.path}: {error.detail}"
    return JSONResponse(
        {"code": codes.get(error.status_code, "bad_request"), "message": message}, error.status_code, error.headers
    )


async def left(http: HttpRequest, error: Exception) -> Response:
    """The client went away before it had sent its request: nobody reads this answer."""
    return Response(status_code=499)


async def broken(http: HttpRequest, error: Exception) -> Response:
    reference = new_execution_id()
    log.error("request broke", path=http.url.path, reference=reference, exc_info=error)
    told = ConvoqError(f"internal error: {type(error).__name__}")
    return JSONResponse(_words(http, reference).error(told.as_dict()), 500)
