"""What the API process has, made once at start-up."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import cast

from starlette.requests import Request

from convoq.api.relay import Hub
from convoq.api.triggers import Triggers
from convoq.api.turnstile import Turnstile
from convoq.contract.services import Services
from convoq.delivery.admission import ChatQueue
from convoq.delivery.stopping import Stopper
from convoq.delivery.takeover import Takeover
from convoq.errors import Unavailable
from convoq.redis import RETRY_AFTER_S, Arrival, Pipe
from convoq.settings import Settings
from convoq.store.sessions import SessionStore
from convoq.store.workflows import WorkflowStore


@dataclass(frozen=True, slots=True)
class State:
    """`open` once Redis was there: before, `pipe` and `hub` do not work."""

    settings: Settings
    arrival: Arrival
    pipe: Pipe
    hub: Hub
    queue: ChatQueue
    store: WorkflowStore
    triggers: Triggers
    services: Services
    takeover: Takeover
    stopper: Stopper
    sessions: SessionStore
    gate: asyncio.Semaphore
    """In a burst some are let through after the other, lest all are as late as the last."""
    turnstile: Turnstile = field(default_factory=Turnstile)
    """The messages of one session are admitted in the order in which they arrived."""
    open: asyncio.Event = field(default_factory=asyncio.Event)


def settings_of(http: Request) -> Settings:
    return cast(State, http.app.state.convoq).settings


def state_of(http: Request) -> State:
    """For who needs Redis. Raises `Unavailable` until it was there for the first time."""
    state = cast(State, http.app.state.convoq)
    if not state.open.is_set():
        raise Unavailable(f"Redis is not there yet: {state.arrival.trouble}", retry_after=RETRY_AFTER_S)
    return state
