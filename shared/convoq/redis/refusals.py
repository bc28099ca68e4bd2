"""Refusals that pass: the server answers, and will do at another time what it does not do now."""

from __future__ import annotations

import re

from redis.exceptions import (
    BusyLoadingError,
    ClusterDownError,
    MasterDownError,
    OutOfMemoryError,
    ReadOnlyError,
    RedisError,
    TryAgainError,
)

from convoq.errors import Unavailable

PATIENCE_S = 15.0
RETRY_AFTER_S = 5
PASSING = {
    "OOM": OutOfMemoryError,  # memory is used up
    "NOREPLICAS": None,  # min-replicas-to-write
    "MISCONF": None,  # the last snapshot or append could not be written
    "LOADING": BusyLoadingError,
    "BUSY": None,  # somebody's script does not end
    "MASTERDOWN": MasterDownError,
    "CLUSTERDOWN": ClusterDownError,
    "TRYAGAIN": TryAgainError,
    "READONLY": ReadOnlyError,  # a replica, in a failover
}
ELSEWHERE = ("LOADING", "MASTERDOWN", "READONLY")
"""This server is not the one to ask: another may be behind the same address by now."""
_IN_SCRIPT = re.compile(r": -(?=[A-Z]+ )")
"""Redis 6.2 says `ERR Error running script (call to …): @user_script:1: -OOM command not allowed …`."""
_PLACE = re.compile(r" script: .*$", re.DOTALL)


def refusal(error: BaseException) -> str | None:
    """What the server said, where it is one of `PASSING`: its word first, as in `OOM command not allowed …`."""
    if not isinstance(error, RedisError):
        return None
    text = _PLACE.sub("", str(error))
    if error.status_code == "ERR":
        text = _IN_SCRIPT.split(text)[-1]
    elif error.status_code is not None:  # redis-py has cut it off
        text = f"{error.status_code} {text}"
    else:
        word = next((word for word, kind in PASSING.items() if kind is not None and type(error) is kind), "")
        text = f"{word} {text}".strip()
    return text if text.split(" ")[0] in PASSING else None


def refused(said: str) -> Unavailable:
    return Unavailable(f"Redis refuses for now: {said}", retry_after=RETRY_AFTER_S)


def unavailable(error: BaseException) -> Unavailable:
    """What a client is told of a failure of Redis."""
    if said := refusal(error):
        return refused(said)
    return Unavailable(f"Redis does not answer: {error or type(error).__name__}", retry_after=RETRY_AFTER_S)
