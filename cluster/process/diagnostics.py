"""Writes the diagnostic log of a process for operators; it is separate from the state-change log.

One line per event: key=value on a terminal, JSON otherwise; lines that repeat are limited. Libraries that use `logging`
(kazoo, grpc, asyncio) are formatted the same way. Use `structlog.stdlib.get_logger()` with a constant message and
fields.
"""

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TextIO

import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

from cluster.process.repeated_lines import RepeatedLines

_silent: ContextVar[bool] = ContextVar("silent", default=False)
_NOISY_LIBRARIES = ("kazoo", "grpc", "asyncio", "py4j")


def configure_diagnostics(role: str, node: object = None, *, level: str = "INFO", stream: TextIO | None = None) -> None:
    """Write log lines to `stream` (stderr), with role and node; call again once the node's id is known."""
    target = sys.stderr if stream is None else stream

    def stamp(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
        event["role"] = role
        if node is not None:
            event["node"] = node
        return event

    shared: list[Processor] = [
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        stamp,
    ]
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            _drop_silenced,
            *shared,
            structlog.processors.StackInfoRenderer(),
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        wrapper_class=structlog.stdlib.BoundLogger,
        logger_factory=structlog.stdlib.LoggerFactory(),
    )
    handler = logging.StreamHandler(target)
    handler.addFilter(_without_traceback_of_callers)
    handler.addFilter(RepeatedLines())
    handler.setFormatter(_formatter(shared, for_person=target.isatty()))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    set_log_level(level)


def set_log_level(level: str) -> None:
    """Write only lines of this level (such as "debug", in any case) and above; of libraries, no less than warnings."""
    root = logging.getLogger()
    root.setLevel(level.upper())
    for library in _NOISY_LIBRARIES:
        logging.getLogger(library).setLevel(max(logging.WARNING, root.level))


def _without_traceback_of_callers(record: logging.LogRecord) -> bool:
    """Shorten what gRPC logs as an error of the server when a caller hangs up while its answer is sent, as any
    caller may.
    """
    error = record.exc_info[0] if record.exc_info else None
    if record.name.startswith("grpc") and error is not None and error.__name__ == "ExecuteBatchError":
        method = record.getMessage().partition("[")[2].rstrip("]")
        event = "Caller hung up before it had the answer; perhaps it takes no messages of that size"
        record.exc_info = record.exc_text = None
        record.levelno, record.levelname = logging.WARNING, "WARNING"
        record.msg, record.args = f"{event}: {method}", ()
    return True


@contextmanager
def silenced() -> Iterator[None]:
    """Suppress log lines in this context, for dry runs."""
    token = _silent.set(True)
    try:
        yield
    finally:
        _silent.reset(token)


def _drop_silenced(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    if _silent.get():
        raise structlog.DropEvent
    return event


def _formatter(shared: list[Processor], *, for_person: bool) -> logging.Formatter:
    last: list[Processor] = (
        # Without the values of variables, among which a password may be.
        [structlog.dev.ConsoleRenderer(colors=True, sort_keys=False, exception_formatter=structlog.dev.plain_traceback)]
        if for_person
        else [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
    )
    return structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=shared, processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *last]
    )
