"""Request bodies on their way in: how much of them all is held at once, and what becomes of one that nobody wants."""

from __future__ import annotations

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

FREE_BYTES = 16 << 10
"""What of each body does not count: large bodies that come slowly keep nobody from sending an ordinary message."""
READ_BYTES = 256 << 10
"""What comes of a connection at once, at most."""
IN_SCOPE = "convoq.body"


class Bodies:
    """What the bodies of a process's requests hold, in bytes."""

    def __init__(self, most: int, most_unwanted: int) -> None:
        self.most = most
        self.most_unwanted = most_unwanted
        self.held = 0

    @property
    def full(self) -> bool:
        """As good as: the next large body will hardly find room."""
        return self.held > self.most - min(READ_BYTES, self.most // 2)


class Body:
    """One request's. It counts until the request is answered: by then all of it was read and handed on."""

    __slots__ = ("_bodies", "_dropped", "_size", "counted", "wanted", "whole")

    def __init__(self, bodies: Bodies) -> None:
        self._bodies = bodies
        self._size = 0
        self._dropped = 0
        self.counted = 0
        self.whole = False
        self.wanted = True

    def take(self, size: int) -> bool:
        """Whether there is room for so many bytes more."""
        self._size += size
        more = self._size - FREE_BYTES - self.counted
        if more <= 0:
            return True
        if self._bodies.held + more > self._bodies.most:
            return False
        self._bodies.held += more
        self.counted += more
        return True

    def drop(self, size: int) -> bool:
        """Whether it is still worth the while to hear more of what nobody wants."""
        self._dropped += size
        return self._dropped <= self._bodies.most_unwanted

    def release(self) -> None:
        """Nobody reads it any more. Harmless when repeated."""
        self._bodies.held -= self.counted
        self.counted = 0
        self.wanted = False


class WholeBodies:
    """Gives no answer before the request has come in whole, within reason: who is still sending reads none. What nobody
    reads any more is dropped as it comes."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        body: Body | None = scope.get(IN_SCOPE)
        if body is None or (body.whole and not body.counted):
            return await self._app(scope, receive, send)

        async def when_whole(message: Message) -> None:
            if message["type"] == "http.response.start":
                body.release()
                while not body.whole:
                    if (await receive())["type"] == "http.disconnect" or not body.drop(0):
                        MutableHeaders(scope=message)["Connection"] = "close"
                        break
            await send(message)

        try:
            await self._app(scope, receive, when_whole)
        finally:
            body.release()
