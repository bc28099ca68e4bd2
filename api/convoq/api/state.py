"""What the API process has, made once at start-up."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import cast

from starlette.requests import Request

from convoq.api.relay import Hub
from convoq.api.triggers import Triggers
from convoq.contract.services import Services
from convoq.delivery.admission import ChatQueue
from convoq.delivery.stopping import Stopper
from convoq.delivery.takeover import Takeover
from convoq.redis import Pipe
from convoq.settings import Settings
from convoq.store.sessions import SessionStore
from convoq.store.workflows import WorkflowStore


@dataclass(frozen=True, slots=True)
class State:
    settings: Settings
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


def state_of(http: Request) -> State:
    return cast(State, http.app.state.convoq)
