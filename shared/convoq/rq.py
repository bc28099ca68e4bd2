"""RQ with its keys behind convoq's prefix: everything of it is imported from here (a test sees to it).

RQ reads its prefix from the environment when it is imported, one for the process. Its own tools, as `rq info`, are told
the same by `RQ_KEY_PREFIX=convoq:rq`.
"""

# ruff: noqa: E402

from __future__ import annotations

import os

from convoq import keys
from convoq.errors import ConfigError

_before = os.environ.get("RQ_KEY_PREFIX")
os.environ["RQ_KEY_PREFIX"] = keys.RQ_PREFIX.removesuffix(":")

# isort: split
from rq import Queue
from rq.command import PUBSUB_CHANNEL_TEMPLATE, parse_payload
from rq.executions import Execution
from rq.job import Job, JobStatus
from rq.rate_limit import RateLimitRegistry
from rq.registry import FailedJobRegistry
from rq.scripts import _build_hset_args as build_hset_args
from rq.suspension import WORKERS_SUSPENDED
from rq.utils import now, utcformat
from rq.worker import BaseWorker, WorkerStatus
from rq.worker_registration import register, unregister

__all__ = [
    "PUBSUB_CHANNEL_TEMPLATE",
    "WORKERS_SUSPENDED",
    "BaseWorker",
    "Execution",
    "FailedJobRegistry",
    "Job",
    "JobStatus",
    "Queue",
    "RateLimitRegistry",
    "WorkerStatus",
    "build_hset_args",
    "now",
    "parse_payload",
    "register",
    "unregister",
    "utcformat",
]

if _before is None:
    del os.environ["RQ_KEY_PREFIX"]
else:
    os.environ["RQ_KEY_PREFIX"] = _before

if not WORKERS_SUSPENDED.startswith(keys.RQ_PREFIX):
    raise ConfigError("rq was imported before convoq, with other keys: import convoq.rq first")
