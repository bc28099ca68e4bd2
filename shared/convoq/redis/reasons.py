"""Why a server did not answer, for people."""

from __future__ import annotations

import os
import socket
import ssl
from collections.abc import Iterator

from redis.exceptions import TimeoutError as RedisTimeout

from convoq.redis.refusals import refusal


def reason(error: BaseException) -> str:
    """A few words on why a server did not answer, without its address."""
    for cause in chain(error):
        if said := refusal(cause):
            return said
        match cause:
            case socket.gaierror():
                return "its name is not known"
            case OSError(errno=int(number)) if number > 0 and not isinstance(cause, ssl.SSLError):
                return os.strerror(number)
    if any(isinstance(cause, TimeoutError | RedisTimeout) for cause in chain(error)):
        return "no answer"
    return str(error).partition("\n")[0].partition(" : ")[0] or type(error).__name__


def chain(error: BaseException | None) -> Iterator[BaseException]:
    """The error and what it came from."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__
