"""How convoq talks to Redis: one auto-pipelined connection for commands and scripts, one for pub/sub.

Both come back after a failure. Everything else of convoq reaches Redis through this room, and imports from here.
"""

from convoq.redis.arrival import Arrival
from convoq.redis.clients import async_client, sync_client
from convoq.redis.connection import CONNECT_ERRORS, RECONNECT_S, REPLY_TIMEOUT_S
from convoq.redis.pipe import Argument, Pipe
from convoq.redis.refusals import PATIENCE_S, RETRY_AFTER_S, refusal, unavailable
from convoq.redis.scripts import Script, load_script
from convoq.redis.subscriber import Subscriber

__all__ = [
    "CONNECT_ERRORS",
    "PATIENCE_S",
    "RECONNECT_S",
    "REPLY_TIMEOUT_S",
    "RETRY_AFTER_S",
    "Argument",
    "Arrival",
    "Pipe",
    "Script",
    "Subscriber",
    "async_client",
    "load_script",
    "refusal",
    "sync_client",
    "unavailable",
]
