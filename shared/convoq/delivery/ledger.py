"""RQ's book-keeping without its round trips: its own code records the commands, our scripts apply them as one.

RQ 3's `perform_job` writes each step by its own synchronous call; what it writes is kept here, so `rq info`, the
registries, results and worker statistics stay true. Followed: `rq/executions.py` `prepare_execution`,
`rq/worker/base.py` `register_birth`, `register_death`, `prepare_job_execution`, `maintain_heartbeats`,
`handle_job_success`, `handle_job_failure`.
"""

from __future__ import annotations

from typing import cast

import redis
from redis.client import Pipeline

from convoq.delivery.entries import Status
from convoq.redis import Argument
from convoq.rq import (
    BaseWorker,
    Execution,
    Job,
    JobStatus,
    Queue,
    WorkerStatus,
    now,
    register,
    unregister,
    utcformat,
)


def words(pipeline: Pipeline) -> list[Argument]:
    """Recorded commands as `apply.lua` takes them: each its length, then its words."""
    found: list[Argument] = []
    for arguments, _ in pipeline.command_stack:
        found.append(len(arguments))
        found.extend(cast(tuple[Argument, ...], arguments))
    return found


def started(worker: BaseWorker, job: Job) -> tuple[Execution, list[Argument]]:
    """The worker begins with the job."""
    pipeline = worker.connection.pipeline()
    execution = Execution.create(job, worker.get_heartbeat_ttl(job), pipeline, worker_name=worker.name)
    job.prepare_for_execution(worker.name, pipeline)
    worker.executions[execution.id] = execution
    return execution, words(pipeline)


def born(worker: BaseWorker) -> list[Argument]:
    """The worker is there."""
    pipeline = worker.connection.pipeline()
    worker.birth_date = worker.last_heartbeat = now()
    worker.set_state(WorkerStatus.STARTED, pipeline)
    pipeline.hset(worker.key, mapping=worker.serialize())
    register(worker, pipeline)
    pipeline.expire(worker.key, worker.worker_ttl + 60)
    return words(pipeline)


def died(worker: BaseWorker) -> list[Argument]:
    """The worker ends."""
    pipeline = worker.connection.pipeline()
    unregister(worker, pipeline)
    pipeline.hset(worker.key, "death", utcformat(now()))
    pipeline.expire(worker.key, 60)
    pipeline.delete(worker.executions_key)
    return words(pipeline)


def beat(worker: BaseWorker) -> list[Argument]:
    """The worker lives."""
    pipeline = worker.connection.pipeline()
    worker.heartbeat(pipeline=pipeline)
    return words(pipeline)


def still_runs(worker: BaseWorker, job: Job, execution: Execution) -> list[Argument]:
    """The worker still works on the job."""
    pipeline = worker.connection.pipeline()
    execution.heartbeat(job.started_job_registry, worker.get_heartbeat_ttl(job), pipeline)
    return words(pipeline)


def ended(worker: BaseWorker, job: Job, execution: Execution, status: Status, message: str) -> list[Argument]:
    """The worker is done with the job. `message` is what a failed one shows as its reason."""
    pipeline = worker.connection.pipeline()
    job.ended_at = now()
    if status == "success":
        ttl = job.get_result_ttl(worker.default_result_ttl)
        job._result = {"status": status}
        worker.increment_successful_job_count(pipeline)
        job._handle_success(
            ttl,
            pipeline,
            worker_name=worker.name,
            execution_id=execution.id,
            execution_started_at=execution.created_at,
            execution_ended_at=job.ended_at,
        )
        job.cleanup(ttl, pipeline, remove_from_queue=False)
    else:
        worker.increment_failed_job_count(pipeline)
        _failed(job, status, message, pipeline, execution)
    if job.started_at:
        worker.increment_total_working_time(job.ended_at - job.started_at, pipeline)
    execution.delete(job, pipeline)
    return words(pipeline)


def abandoned(connection: redis.Redis, job: Job, execution: Execution | None, message: str | None) -> list[Argument]:
    """The job's worker is lost. With a message the job has failed; without one it goes back to its queue."""
    pipeline = connection.pipeline()
    if message is None:
        job.set_status(JobStatus.QUEUED, pipeline)
    else:
        job.ended_at = now()
        _failed(job, "error", message, pipeline, execution)
    if execution is not None:
        execution.delete(job, pipeline)
    return words(pipeline)


def cancelled(connection: redis.Redis, job: Job, message: str) -> list[Argument]:
    """The job was stopped before any worker took it: nowhere but in the failed registry is it left."""
    pipeline = connection.pipeline()
    job.ended_at = now()
    _failed(job, "stopped", message, pipeline, None)
    pipeline.lrem(Queue.redis_queue_namespace_prefix + job.origin, 1, job.id)
    return words(pipeline)


def _failed(job: Job, status: Status, message: str, pipeline: Pipeline, execution: Execution | None) -> None:
    job.set_status(JobStatus.STOPPED if status == "stopped" else JobStatus.FAILED, pipeline)
    job._handle_failure(
        message,
        pipeline,
        worker_name="" if execution is None else execution.worker_name,
        execution_id=None if execution is None else execution.id,
        execution_started_at=None if execution is None else execution.created_at,
        execution_ended_at=job.ended_at,
    )
    pipeline.expire(job.key, job.failure_ttl or 0)
