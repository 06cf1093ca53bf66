"""The log level of a process, as it is changed while it runs."""

import io
import logging
from collections.abc import Iterator

import pytest
import structlog

from cluster.process.diagnostics import configure_diagnostics, set_log_level
from cluster.process.log_level import LogLevel


@pytest.fixture
def stream() -> Iterator[io.StringIO]:
    written = io.StringIO()
    root = logging.getLogger()
    before = root.handlers[:], root.level
    configure_diagnostics("broker", 1, stream=written)
    yield written
    root.handlers[:] = before[0]
    root.setLevel(before[1])
    structlog.reset_defaults()


def test_lines_below_the_level_are_left_out_from_the_change_on(stream: io.StringIO) -> None:
    log = structlog.stdlib.get_logger("broker_agent.test")
    level = LogLevel(apply=set_log_level)
    log.debug("too early")
    level.override(own={"log.level": "debug"}, of_all={"log.level": "error"})
    log.debug("between")
    level.override(own={}, of_all={"log.level": "error"})
    log.warning("too late")
    logging.getLogger("kazoo").warning("of a library")
    level.override(own={}, of_all={})
    written = stream.getvalue()
    assert written.count("Log level changed") == 3
    assert "between" in written
    assert not any(text in written for text in ("too early", "too late", "of a library"))


def test_an_invalid_override_is_named_and_ignored(stream: io.StringIO) -> None:
    level = LogLevel("warning", set_log_level)
    level.override(own={"log.level": "loud"}, of_all={})
    assert level.value == "warning"
    assert '"loud"' in stream.getvalue()
    assert "debug, info, warning, error" in stream.getvalue()
