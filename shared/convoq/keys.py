"""Every key convoq owns in Redis. All but the definitions have a time-to-live.

What stands before them is the installation's (`CONVOQ_PREFIX`), so that several can share a server. It is read here,
once, and not passed down: keys are made on the hot path, and RQ, too, knows one prefix a process (`convoq.rq`).
"""

from __future__ import annotations

import hashlib
import os
import re
from urllib.parse import quote

VARIABLE, DEFAULT = "CONVOQ_PREFIX", "convoq"
ALLOWED = r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,39}"
"""Without a colon, so that no installation's keys can begin like another's. RQ puts it into Lua and into templates."""


def _installation() -> str:
    name = os.environ.get(VARIABLE, DEFAULT)
    return name if re.fullmatch(ALLOWED, name) else DEFAULT  # the settings refuse it, with a reason


INSTALLATION = _installation()
PREFIX = f"{INSTALLATION}:"
RQ_PREFIX = f"{PREFIX}rq:"
CREDENTIALS = f"{PREFIX}credentials"
KINDS = {
    "claims": "claims on sessions, on other servers",
    "credentials": "credentials, encrypted",
    "exec": "records of executions",
    "exec data": "run data of executions",
    "exec files": "files of executions",
    "exec log": "streams",
    "exec more": "messages that joined others",
    "lease": "leases",
    "mem": "memories",
    "processes": "processes that are there",
    "once": "idempotency keys",
    "rq": "the queue's own (RQ)",
    "rq job": "jobs",
    "rq results": "results of jobs",
    "session": "indexes of sessions",
    "sessions": "indexes of sessions",
    "thread": "threads of chats",
    "waiting": "waiting messages",
    "wf": "workflows",
    "workers": "workers",
}
"""What is behind the prefix, as `kind` names it: for lists, and to tell an installation's keys from other people's."""
LEASES = f"{PREFIX}lease"
WAITING = f"{PREFIX}waiting"
WORKERS = f"{PREFIX}workers"
PROCESSES = f"{PREFIX}processes"


def kind(key: str) -> str:
    """Of a key of this installation, as in `KINDS`: its first word, with RQ's second or an execution's last."""
    word, *rest = key.removeprefix(PREFIX).split(":")
    named = " ".join([word, *(rest[:1] if word == "rq" else rest[-1:])])
    return named if named in KINDS else word


def is_reserved(key: str) -> bool:
    """Whether a key that a user names could be convoq's, of this installation or of another one on the same server."""
    name, colon, rest = key.partition(":")
    return colon == ":" and (
        key.startswith((PREFIX, "rq:")) or (bool(re.fullmatch(ALLOWED, name)) and rest.split(":")[0] in KINDS)
    )


def execution(execution_id: str) -> str:
    """Hash: status, workflow, session, attempt, timings, error. The pub/sub channel has the same name."""
    return f"{PREFIX}exec:{execution_id}"


def stream_log(execution_id: str) -> str:
    """Stream: the chunks."""
    return f"{PREFIX}exec:{execution_id}:log"


def run_data(execution_id: str) -> str:
    return f"{PREFIX}exec:{execution_id}:data"


def files(execution_id: str) -> str:
    """Hash: the bytes of the execution's files by name, and `bytes`, what they hold together."""
    return f"{PREFIX}exec:{execution_id}:files"


def joined(execution_id: str) -> str:
    """List: messages that joined a waiting one (`merge`), as JSON items."""
    return f"{PREFIX}exec:{execution_id}:more"


def submission(workflow_id: str, session_id: str, idempotency_key: str) -> str:
    """Hash: which execution a client's idempotency key belongs to."""
    digest = hashlib.sha256(idempotency_key.encode()).hexdigest()[:32]
    return f"{PREFIX}once:{session(workflow_id, session_id)}:{digest}"


def session(workflow_id: str, session_id: str) -> str:
    """What the turns of one conversation share, RQ's rate-limit key too. Injective: session ids may hold anything."""
    return f"{quote(workflow_id, safe='')}:{quote(session_id, safe='')}"


def memory(workflow_id: str, session_id: str, node: str) -> str:
    """List: the turns of one memory node in one session."""
    return f"{PREFIX}mem:{session(workflow_id, session_id)}:{quote(node, safe='')}"


def claims(session_key: str) -> str:
    """Set, beside a session on a server that a credential names. See `convoq.memory.claims`."""
    return f"{PREFIX}claims:{{{session_key}}}"


def folding(workflow_id: str, session_id: str, node: str) -> str:
    """String: the token of who is summing up that memory."""
    return f"{memory(workflow_id, session_id, node)}:folding"


def thread(workflow_id: str, session_id: str) -> str:
    """List: what the chat of a session said and was told, one JSON object an exchange."""
    return f"{PREFIX}thread:{session(workflow_id, session_id)}"


def session_executions(workflow_id: str, session_id: str) -> str:
    """Sorted set: the executions of one session by their last sign of life, s since 1970."""
    return f"{PREFIX}session:{session(workflow_id, session_id)}"


def session_keys(workflow_id: str, session_id: str) -> str:
    """Sorted set: other keys that hold something of one session (memories, submissions) by when they expire, so that
    all of it can be found again."""
    return f"{PREFIX}session:{session(workflow_id, session_id)}:keys"


def sessions(workflow_id: str) -> str:
    """Sorted set: a workflow's sessions (URL-quoted) by their last activity, s since 1970."""
    return f"{PREFIX}sessions:{quote(workflow_id, safe='')}"
