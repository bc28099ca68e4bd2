"""Logging: one line an event, on standard error, without the values of variables (they hold people's messages)."""

from __future__ import annotations

import logging
import sys

import structlog

from convoq.settings import Settings


def configure_logs(settings: Settings) -> None:
    """For a process: readable lines on a terminal, JSON lines elsewhere. RQ's loggers only tell what is wrong."""
    level = getattr(logging, settings.log_level.upper())
    terminal = sys.stderr.isatty()
    last: list[structlog.typing.Processor]
    if terminal:
        last = [structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)]
    else:
        last = [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso"),
            *last,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
    logging.getLogger("rq").setLevel(max(level, logging.WARNING))
