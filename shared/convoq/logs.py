"""Logging: one line an event, on standard error, without the values of variables (they hold people's messages)."""

from __future__ import annotations

import logging
import sys

import structlog

from convoq.addresses import scrub
from convoq.settings import Settings


def configure_logs(settings: Settings) -> None:
    """For a process: readable lines on a terminal, JSON lines elsewhere. RQ's loggers only tell what is wrong."""
    level = getattr(logging, settings.log_level.upper())
    renderer: structlog.typing.Processor = structlog.processors.JSONRenderer()
    if sys.stderr.isatty():
        renderer = structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso"),
            structlog.processors.format_exc_info,
            _without_secrets,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
    logging.getLogger("rq").setLevel(max(level, logging.WARNING))


def _without_secrets(_: object, __: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
    """Whatever quotes an address, an exception's text too, quotes none of its secrets."""
    return {name: scrub(value) if isinstance(value, str) else value for name, value in event.items()}
