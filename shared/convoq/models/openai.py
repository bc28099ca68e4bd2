"""Servers that speak OpenAI's chat completions: OpenAI, OpenRouter, vLLM, Ollama, llama.cpp, Groq, DeepSeek and more.

This is the hot path: a token costs one event cut out of a chunk and one typed decode, nothing else.
"""

from __future__ import annotations

import asyncio
import re
from base64 import b64encode
from collections.abc import AsyncGenerator, Callable, Collection, Mapping, Sequence
from contextlib import suppress

import aiohttp
from yarl import URL

from convoq import addresses
from convoq.contract.model import Delta, Message, ModelSettings, ToolSpec
from convoq.errors import ModelFailed, ModelTimedOut
from convoq.models import openai_wire as wire
from convoq.models.echo import Echo
from convoq.models.openai_request import request
from convoq.models.patience import Patience
from convoq.models.retry import BACKOFF_S, STATUSES, Transient, retrying
from convoq.models.sse import TooLarge
from convoq.models.words import problem_of, short

CONNECT_TIMEOUT_S = 10.0
TIMEOUT = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_TIMEOUT_S)
"""The waits for bytes are `Patience`'s."""
DRAIN_S = 0.1
"""How long to wait for the end of a body that is complete, so that its connection can be used again."""
KEY_LIKE = re.compile(r"\bsk-[\w*-]{6,}")


class _Filtered(Exception):
    """A content filter would not let the model see the request."""


class OpenAIModel:
    """`base_url` is taken as given, with or without a slash at its end: `{base_url}/chat/completions` is called. With
    `user:password@` in it these are what the server is shown, in place of the key. `query` and `headers` go with every
    call; what is in headers is never shown. `reasoning_field` is known of servers that insist on it (see `Echo`)."""

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
        reasoning_field: str = "",
    ) -> None:
        self._http = http
        self.name = name
        self.settings = settings
        if wrong := addresses.fault(base_url.strip()):
            raise ModelFailed(f"model {name!r}: base URL {addresses.shown(base_url.strip())!r}: {wrong}")
        self._backoff_s = backoff_s
        self._echo = Echo(reasoning_field)
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
        if given.user is not None or given.password is not None:
            user, password = given.user or "", given.password or ""
            self._headers["Authorization"] = "Basic " + b64encode(f"{user}:{password}".encode()).decode()
        elif api_key:
            self._headers["Authorization"] = f"Bearer {api_key}"
        shown = self._headers.get("Authorization", "").rpartition(" ")[2]
        secrets = (api_key, shown, given.password, given.raw_password, *headers.values())
        self._secrets = [secret for secret in secrets if secret]

    def stream(
        self, messages: Sequence[Message], tools: Sequence[ToolSpec], settings: ModelSettings
    ) -> AsyncGenerator[Delta, None]:
        openai = self._url.host == "api.openai.com"
        body = request(self.name, messages, tools, settings, openai=openai, echo=self._echo)
        names = frozenset(tool.name for tool in tools)
        return retrying(lambda: self._attempt(body, names, settings), settings.max_retries, self._backoff_s)

    async def _attempt(
        self, body: bytes, tools: Collection[str], settings: ModelSettings
    ) -> AsyncGenerator[Delta, None]:
        answer, patience = wire.Answer(tools, self._place), Patience(settings)
        try:
            with patience:
                opened = await self._http().post(
                    self._url, data=body, headers=self._headers, timeout=TIMEOUT, allow_redirects=False
                )
            async with opened as response:
                if response.status != 200:
                    raise await self._refused(response)
                while not answer.done:
                    with patience:
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
                for delta in answer.finish():
                    yield delta
                await _drain(response)
            return
        except aiohttp.ClientSSLError as error:
            raise self._failed(f"cannot be reached: {error}") from error
        except aiohttp.ClientConnectorError as error:
            raise Transient(self._failed(f"cannot be reached: {error}")) from error
        except aiohttp.ConnectionTimeoutError as error:
            raise Transient(self._failed(f"did not accept a connection within {CONNECT_TIMEOUT_S:g} s")) from error
        except TimeoutError as error:
            if not answer.reason:
                raise ModelTimedOut(f"{self._place} {patience.silence}") from error
        except (aiohttp.ClientPayloadError, aiohttp.ClientConnectionError, wire.EndedEarly) as error:
            if not answer.reason:
                stale = isinstance(error, aiohttp.ServerDisconnectedError)  # a kept connection that was just closed
                raise Transient(self._failed("stream ended early"), 0.0 if stale else None) from error
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
        finally:
            patience.close()
            self._echo.learn(answer.reasoning_field, answer.extras)
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
        message = self._clean(problem_of(body) or response.reason or "no reason given")
        failure = self._failed(
            f"answered {response.status}: {message}", provider_status=response.status, provider_message=message
        )
        if response.status not in STATUSES:
            return failure
        return Transient(failure, _retry_after_s(response.headers.get("Retry-After")))

    def _failed(self, what: str, **details: object) -> ModelFailed:
        return ModelFailed(f"{self._place} {what}", **details)

    def _clean(self, text: str) -> str:
        """A provider's words, short and without the key."""
        for secret in self._secrets:
            text = text.replace(secret, "…")
        return short(KEY_LIKE.sub("sk-…", text))


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
