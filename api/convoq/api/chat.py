"""The chat trigger's HTTP face: a page for GET, an execution for POST."""

from __future__ import annotations

import re
from contextlib import AsyncExitStack
from functools import partial

from starlette.requests import Request as HttpRequest
from starlette.responses import JSONResponse, Response

from convoq import keys
from convoq.api.body import ChatRequest, read_chat_request
from convoq.api.cors import allowed
from convoq.api.executions import end_in_the_way
from convoq.api.history import previous_session
from convoq.api.page import PageConfig, chat_page
from convoq.api.reply import Form, JsonReply, StreamReply, negotiate, wants_reasoning
from convoq.api.state import State, state_of
from convoq.api.triggers import Chat
from convoq.api.words import Words
from convoq.delivery.admission import Admitted, Request, Terms
from convoq.errors import BadRequest, Forbidden, NotFound

ADMIT_S = 5.0
ONCE_MAX_CHARS = 255


async def show_page(http: HttpRequest) -> Response:
    state = state_of(http)
    chat = await state.triggers.find(http.path_params["path"])
    parameters = chat.trigger.parameters
    if parameters.mode == "webhook":
        raise NotFound(f"the chat at {http.url.path} has no page (mode webhook): POST a message to it")
    check_access(http, chat)
    options = parameters.options
    config = PageConfig(
        title=options.title,
        subtitle=options.subtitle,
        placeholder=options.input_placeholder,
        initial_messages=tuple(parameters.greetings),
        webhook_url=re.sub("/+", "/", http.url.path).rstrip("/"),  # each spelling would be a page of its own
        load_previous=options.load_previous_session == "memory",
        custom_css=options.custom_css,
        max_chars=state.settings.max_message_chars,
    )
    return chat_page(config).answer(http)


async def receive_message(http: HttpRequest) -> Response:
    """Accept a message, have a worker run it, hand on what it says in the form the client asked for."""
    state = state_of(http)
    chat = await state.triggers.find(http.path_params["path"])
    check_access(http, chat)
    options = chat.trigger.parameters.options
    message = await read_chat_request(http, state.settings, require_session=options.require_session_id)
    if message.action == "loadPreviousSession":
        return await previous_session(state, chat, message)
    accept = http.headers.get("accept", "")
    form = negotiate(accept, chat.trigger.parameters.response_mode)
    reasoning = wants_reasoning(accept)
    return await run(state, chat, message, form, terms_of(http, state, chat), reasoning=reasoning)


def check_access(http: HttpRequest, chat: Chat) -> None:
    parameters = chat.trigger.parameters
    origin = http.headers.get("origin")
    if origin is not None and not allowed(origin, parameters.options.allowed_origins):
        raise Forbidden(f"origin {origin} is not among the allowed origins of this chat")
    if parameters.authentication != "none":
        raise Forbidden(f"this chat asks for {parameters.authentication}, which is not supported yet: nobody is let in")


def terms_of(http: HttpRequest, state: State, chat: Chat) -> Terms:
    options = chat.trigger.parameters.options
    once = http.headers.get("idempotency-key")
    if once is not None and not 0 < len(once) <= ONCE_MAX_CHARS:
        raise BadRequest(f"Idempotency-Key has {len(once)} characters: expected 1 to {ONCE_MAX_CHARS}")
    window = options.merge_window
    return Terms(
        options.when_busy or state.settings.when_busy,
        state.settings.merge_window_s if window is None else window,
        once,
    )


async def run(
    state: State, chat: Chat, message: ChatRequest, form: Form, terms: Terms, *, reasoning: bool = False
) -> Response:
    request = Request(
        workflow_id=chat.workflow.id,
        version=chat.workflow.version,
        trigger=chat.trigger.node.name,
        session_id=message.session_id,
        item=message.item,
        stream=form in (Form.NDJSON, Form.SSE),
        reasoning=reasoning,
    )
    async with AsyncExitStack() as listening:
        reader = state.hub.reader(state.queue.new_id())

        async def admit() -> Admitted:
            async with state.turnstile.at(keys.session(request.workflow_id, request.session_id)), state.gate:
                if form is not Form.RECEIVED:  # before the message is queued, so that no chunk is missed
                    await listening.enter_async_context(reader)
                return await state.queue.admit(reader.execution_id, request, terms)

        admitted = await state.pipe.within(ADMIT_S, admit())
        for other in admitted.in_the_way:
            await end_in_the_way(state, other)
        headers = {"X-Execution-Id": admitted.execution_id, "X-Stream-Token": admitted.token}
        if form is Form.RECEIVED:
            return JSONResponse({"executionStarted": True, "executionId": admitted.execution_id}, headers=headers)
        if admitted.execution_id != reader.execution_id:
            reader.close()
            reader = state.hub.reader(admitted.execution_id)
            await listening.enter_async_context(reader)
            reader.fall_behind()
        listening.pop_all()  # the reply leaves the stream at its end
        on_left = None
        if chat.trigger.parameters.options.cancel_on_disconnect:
            on_left = partial(state.stopper.stop, admitted.execution_id, "the client left")
        keepalive_s = state.settings.keepalive_s
        own = chat.trigger.parameters.options.error_message
        words = Words(state.settings.error_details, admitted.execution_id, own)
        if form is Form.JSON:
            files = state.services.binaries
            return JsonReply(reader, words, headers, keepalive_s, files=files, on_left=on_left)
        return StreamReply(reader, words, form, headers, keepalive_s, position=admitted.position, on_left=on_left)
