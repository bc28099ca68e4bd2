"""Servers that speak OpenAI's chat completions: OpenAI, OpenRouter, vLLM, Ollama, llama.cpp, Groq, DeepSeek and more.

This is the hot path: a token costs one event cut out of a chunk and one typed decode, nothing else.
"""

from __future__ import annotations

import asyncio
import random
import re
from base64 import b64encode
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing, suppress

import aiohttp
from yarl import URL

from convoq import addresses
from convoq.contract.model import Delta, Message, ModelSettings, ReasoningDelta, ToolSpec
from convoq.errors import ModelFailed, ModelTimedOut
from convoq.models import openai_wire as wire
from convoq.models.openai_request import request
from convoq.models.patience import Patience
from convoq.models.sse import TooLarge

CONNECT_TIMEOUT_S = 10.0
TIMEOUT = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_TIMEOUT_S)
"""The waits for bytes are `Patience`'s."""
BACKOFF_S = 0.5
MAX_WAIT_S = 5.0
"""A server that asks for more patience than this fails the call: somebody is waiting for the answer."""
DRAIN_S = 0.1
"""How long to wait for the end of a body that is complete, so that its connection can be used again."""
MAX_MESSAGE_CHARS = 500
RETRIED = frozenset({408, 409, 429, 500, 502, 503, 504, 529})
KEY_LIKE = re.compile(r"\bsk-[\w*-]{6,}")


class _Transient(Exception):
    """A failure that may pass: worth another try while nothing was emitted. `wait_s` is what the server asked for."""

    def __init__(self, failure: ModelFailed, wait_s: float | None = None) -> None:
        super().__init__(failure.message)
        self.failure = failure
        self.wait_s = wait_s


class _Filtered(Exception):
    """A content filter would not let the model see the request."""


class OpenAIModel:
    """`base_url` is taken as given, with or without a slash at its end: `{base_url}/chat/completions` is called. With
    `user:password@` in it these are what the server is shown, in place of the key. `query` and `headers` go with every
    call; what is in headers is never shown."""

    def __init__(
        self,
        http: Callable[[], aiohttp.ClientSession],
        name: str,
        base_url: str,
        api_key: str | None = None,
        settings: ModelSettings = ModelSettings(),  # noqa: B008
        *,
        backoff_s: float = BACKOFF_S,
        query: Mapping[str, str] = {},
        headers: Mapping[str, str] = {},
    ) -> None:
        self._http = http
        self.name = name
        self.settings = settings
        if wrong := addresses.fault(base_url.strip()):
            raise ModelFailed(f"model {name!r}: base URL {addresses.shown(base_url.strip())!r}: {wrong}")
        self._backoff_s = backoff_s
        self._reasoning_field = ""
        try:
            given = URL(base_url.strip().rstrip("/") + "/chat/completions")
            self._url, host = given.with_user(None).update_query(query), given.host
        except ValueError:
            host = None
        if not host or self._url.scheme not in ("http", "https"):
            raise ModelFailed(f"model {name!r}: the base URL is not an http(s) URL")
        self._place = f"model {name!r} at {host}{f':{self._url.explicit_port}' if self._url.explicit_port else ''}"
        self._headers = {
            "Content-Type": "application/json",
            "Accept": "text/event-stream, application/json",
            "Accept-Encoding": "identity",  # a compressing proxy would hold tokens back
        }
        self._headers.update(headers)
        secrets = (api_key, given.password, given.raw_password, *headers.values())
        self._secrets = [secret for secret in secrets if secret]
        if given.user is not None or given.password is not None:
            user, password = given.user or "", given.password or ""
            self._headers["Authorization"] = "Basic " + b64encode(f"{user}:{password}".encode()).decode()
        elif api_key:
            self._headers["Authorization"] = f"Bearer {api_key}"

    async def stream(
        self, messages: Sequence[Message], tools: Sequence[ToolSpec], settings: ModelSettings
    ) -> AsyncGenerator[Delta, None]:
        body = request(
            self.name,
            messages,
            tools,
            settings,
            openai=self._url.host == "api.openai.com",
            reasoning_field=self._reasoning_field,
        )
        names = frozenset(tool.name for tool in tools)
        said = False
        for attempt in range(settings.max_retries + 1):
            try:
                answer = wire.Answer(names, self._place)
                async with aclosing(self._attempt(body, answer, settings)) as deltas:
                    async for delta in deltas:
                        said = said or not isinstance(delta, ReasoningDelta)
                        yield delta
                return
            except _Transient as error:
                last = said or attempt == settings.max_retries
                if last or (error.wait_s or 0) > MAX_WAIT_S:
                    raise error.failure from error.__cause__
                backoff_s = self._backoff_s * 2**attempt * random.uniform(0.75, 1.25)
                await asyncio.sleep(backoff_s if error.wait_s is None else error.wait_s)

    async def _attempt(self, body: bytes, answer: wire.Answer, settings: ModelSettings) -> AsyncGenerator[Delta, None]:
        patience = Patience(settings)
        try:
            async with patience.wait():
                opened = await self._http().post(
                    self._url, data=body, headers=self._headers, timeout=TIMEOUT, allow_redirects=False
                )
            async with opened as response:
                if response.status != 200:
                    raise await self._refused(response)
                while not answer.done:
                    async with patience.wait():
                        chunk = await response.content.readany()
                    if not chunk:
                        break
                    patience.heard()
                    for delta in answer.feed(chunk):
                        yield delta
                    if answer.reason:
                        patience.finished()
                if not answer.done:
                    for delta in answer.close():
                        yield delta
                self._reasoning_field = answer.reasoning_field or self._reasoning_field
                for delta in answer.finish():
                    yield delta
                await _drain(response)
            return
        except aiohttp.ClientSSLError as error:
            raise self._failed(f"cannot be reached: {error}") from error
        except aiohttp.ClientConnectorError as error:
            raise _Transient(self._failed(f"cannot be reached: {error}")) from error
        except aiohttp.ConnectionTimeoutError as error:
            raise _Transient(self._failed(f"did not accept a connection within {CONNECT_TIMEOUT_S:g} s")) from error
        except TimeoutError as error:
            if not answer.reason:
                raise ModelTimedOut(f"{self._place} {patience.silence}") from error
        except (aiohttp.ClientPayloadError, aiohttp.ClientConnectionError, wire.EndedEarly) as error:
            if not answer.reason:
                stale = isinstance(error, aiohttp.ServerDisconnectedError)  # a kept connection that was just closed
                raise _Transient(self._failed("stream ended early"), 0.0 if stale else None) from error
        except aiohttp.ClientError as error:
            raise self._failed(f"did not answer in HTTP: {error}") from error
        except wire.ProviderError as error:
            message = self._clean(str(error))
            raise self._failed(f"failed: {message}", provider_message=message) from None
        except wire.BadAnswer as error:
            raise self._failed(f"answered with what is no chat completion: {self._clean(str(error))!r}") from None
        except TooLarge as error:
            raise self._failed(f"failed: {error}") from None
        except _Filtered:
            answer.reason = "content_filter"
        for delta in answer.finish():  # cut off after the model had said that it was through
            yield delta

    async def _refused(self, response: aiohttp.ClientResponse) -> Exception:
        body = b""
        with suppress(aiohttp.ClientError, TimeoutError):
            async with asyncio.timeout(CONNECT_TIMEOUT_S):
                while len(body) < 65_536 and (chunk := await response.content.readany()):
                    body += chunk
        if wire.is_filtered(body):
            return _Filtered()
        message = self._clean(wire.problem_of(body) or response.reason or "no reason given")
        failure = self._failed(
            f"answered {response.status}: {message}", provider_status=response.status, provider_message=message
        )
        if response.status not in RETRIED:
            return failure
        return _Transient(failure, _retry_after_s(response.headers.get("Retry-After")))

    def _failed(self, what: str, **details: object) -> ModelFailed:
        return ModelFailed(f"{self._place} {what}", **details)

    def _clean(self, text: str) -> str:
        """A provider's words, short, on one line and without the key."""
        text = " ".join(text.split())
        for secret in self._secrets:
            text = text.replace(secret, "…")
        text = KEY_LIKE.sub("sk-…", text)
        return text if len(text) <= MAX_MESSAGE_CHARS else text[: MAX_MESSAGE_CHARS - 1] + "…"


async def _drain(response: aiohttp.ClientResponse) -> None:
    if not response.content.is_eof():
        with suppress(TimeoutError, aiohttp.ClientError):
            async with asyncio.timeout(DRAIN_S):
                while await response.content.readany():
                    pass


def _retry_after_s(value: str | None) -> float | None:
    """Seconds of a `Retry-After`; its other form, a date, is not worth a clock and counts as not given."""
    try:
        return max(0.0, float(value or ""))
    except ValueError:
        return None
