"""`convoq up`: everything in one terminal: Valkey, one API process, some workers, the demo workflow."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import shlex
import signal
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import typer

from convoq.cli import embedded
from convoq.cli.children import Child, describe, stop_all
from convoq.cli.connect import connected, made_encryption_key, names_redis
from convoq.cli.definitions import demo_workflow, read_workflows
from convoq.engine.workflow import Workflow
from convoq.errors import ConfigError, ConvoqError
from convoq.process import Stop, StopAsked
from convoq.settings import Settings
from convoq.store.workflows import WorkflowStore

READY_S = 60.0
QUESTION = {"sessionId": "me", "chatInput": "What is 19 * 23?"}


def say(text: str) -> None:
    """To stderr: stdout is for the address that was asked for."""
    typer.echo(text, err=True)


@dataclass(frozen=True)
class Up:
    settings: Settings
    data: Path
    workers: int
    files: Sequence[Path]

    @property
    def base_url(self) -> str:
        """Where this machine reaches the API."""
        host = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}.get(self.settings.host, self.settings.host)
        return f"http://{f'[{host}]' if ':' in host else host}:{self.settings.port}"

    async def run(self) -> None:
        """Until SIGINT, SIGTERM or SIGHUP; a second one hurries. Raises `ConvoqError` where it cannot go on."""
        stop = Stop(signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
        own = [workflow for file in self.files for workflow in read_workflows(file)]
        with suppress(StopAsked):
            async with self._redis(stop) as (url, users_fd, valkey):
                paths = await stop.or_result(_import(url, own))
                watch_fd, alive_fd = os.pipe()
                try:
                    await self._serve(paths, [watch_fd, *users_fd], valkey, stop)
                finally:
                    os.close(alive_fd)
                    os.close(watch_fd)
        say("stopped")

    @asynccontextmanager
    async def _redis(self, stop: Stop) -> AsyncIterator[tuple[str, Sequence[int], embedded.EmbeddedValkey | None]]:
        """The server's URL, what children must inherit, and the server where it is ours."""
        if names_redis(self.settings):
            yield self.settings.redis_url, [], None
            return
        read_fd, write_fd = os.pipe()
        valkey = embedded.EmbeddedValkey(self.data)
        try:
            await stop.or_result(valkey.start(read_fd))
            yield embedded.redis_url(self.data), [write_fd], valkey
        finally:
            await valkey.stop()
            os.close(read_fd)
            os.close(write_fd)

    def _encryption_key(self, valkey: embedded.EmbeddedValkey | None) -> dict[str, str]:
        """Of our own server the credentials are encrypted with a key beside its data, unless there is another."""
        if valkey is None or self.settings.encryption_key is not None:
            return {}
        return {"CONVOQ_ENCRYPTION_KEY": made_encryption_key(self.data)}

    async def _serve(
        self, paths: Sequence[str], fds: Sequence[int], valkey: embedded.EmbeddedValkey | None, stop: Stop
    ) -> None:
        environment = {
            "CONVOQ_LOG_LEVEL": "warning",
            "CONVOQ_ERROR_DETAILS": "true",
            **os.environ,
            **self._encryption_key(valkey),
            "CONVOQ_HOST": self.settings.host,
            "CONVOQ_PORT": str(self.settings.port),
        }
        if valkey is not None:
            environment["CONVOQ_REDIS_URL"] = embedded.redis_url(self.data)
        api = Child("the API", ["api"], environment, fds)
        workers = [Child(f"worker {n + 1}", ["worker"], environment, fds) for n in range(self.workers)]
        keepers: list[asyncio.Task[None]] = []
        stopped = asyncio.create_task(stop.asked.wait())
        try:
            for child in (api, *workers):
                await child.start()
            keepers = [asyncio.create_task(worker.keep_running(say)) for worker in workers]
            fatal = [
                asyncio.create_task(_api_ended(api)),
                *([asyncio.create_task(_valkey_ended(valkey))] if valkey else []),
            ]
            ready = asyncio.create_task(self._ready())
            keepers += fatal
            done, _ = await asyncio.wait({ready, stopped, *fatal}, return_when=asyncio.FIRST_COMPLETED)
            keepers.append(ready)
            if ready in done:
                ready.result()
                self._welcome(paths)
                done, _ = await asyncio.wait({stopped, *fatal}, return_when=asyncio.FIRST_COMPLETED)
            for task in done & set(fatal):
                task.result()
        finally:
            for task in (stopped, *keepers):
                task.cancel()
            say("stopping: running answers are finished first; press Ctrl-C again to hurry")
            for name in await stop_all([api, *workers], self.settings.drain_s + 10, stop.hurried):
                say(f"{name} did not end in time and was killed")

    async def _ready(self) -> None:
        """Raises `ConvoqError` where it takes too long."""
        reason = "no answer"
        try:
            async with asyncio.timeout(READY_S), aiohttp.ClientSession() as http:
                while True:
                    try:
                        async with http.get(f"{self.base_url}/readyz") as answer:
                            if answer.status == 200:
                                return
                            reason = await answer.text()
                    except aiohttp.ClientError as error:
                        reason = str(error)
                    await asyncio.sleep(0.05)
        except TimeoutError:
            raise ConvoqError(f"not ready after {READY_S:g} s: {self.base_url}/readyz says {reason}") from None

    def _welcome(self, paths: Sequence[str]) -> None:
        lines = ["", f"convoq is up: one API process, {self.workers} worker(s). Ctrl-C stops it.", ""]
        for path in paths:
            address = f"{self.base_url}/webhook/{path}"
            lines.append(f"  chat page   {address}")
            lines.append(
                f"  by hand     curl -N {shlex.quote(address)} -H 'content-type: application/json' "
                f"-d {shlex.quote(json.dumps(QUESTION, separators=(',', ':')))}"
            )
        typer.echo("\n".join([*lines, ""]))


def claim_port(settings: Settings) -> Settings:
    """See that the API can have the address, before anything is started for it; port 0 becomes a free one.

    Raises `ConfigError`.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            settings.host, settings.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
            probe.listen()
            return settings.model_copy(update={"port": probe.getsockname()[1]})
    except OSError as error:
        where = f"port {settings.port} of {settings.host!r}"
        if error.errno == errno.EADDRINUSE:
            raise ConfigError(f"{where} is taken by another program; choose another with --port") from None
        if error.errno == errno.EACCES:
            raise ConfigError(f"{where} is reserved for root; choose one above 1023 with --port") from None
        raise ConfigError(f"{where} cannot be listened on: {error.strerror}; correct --host or --port") from None


async def _import(url: str, own: Sequence[Workflow]) -> list[str]:
    """The demo where nothing stands in its place, and the user's files; the paths to tell of."""
    demo = demo_workflow()
    async with connected(url) as client:
        store = WorkflowStore(client)
        if await store.get(demo.id) is None and not any([await store.by_path(path) for path in _paths([demo])]):
            await store.save(demo)
        for workflow in own:
            await store.save(workflow)
    return _paths(own) or _paths([demo])


def _paths(workflows: Sequence[Workflow]) -> list[str]:
    return [trigger.path for workflow in workflows for trigger in workflow.chat_triggers()]


async def _api_ended(api: Child) -> None:
    raise ConvoqError(f"the API ended with {describe(await api.ended())}; see its message above")


async def _valkey_ended(valkey: embedded.EmbeddedValkey) -> None:
    code = await valkey.ended()
    raise ConvoqError(f"the embedded Valkey ended with {describe(code)}; see {valkey.data / 'valkey.log'}")
