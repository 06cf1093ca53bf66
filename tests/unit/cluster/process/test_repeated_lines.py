"""Log lines that repeat: the first ones are written, the rest is counted."""

import io
import json
import logging

import structlog

from cluster.process.diagnostics import configure_diagnostics
from cluster.process.repeated_lines import ALIKE_MAX, SAME_MAX, WINDOW_S, RepeatedLines


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def line(message: str, level: int = logging.WARNING, **fields: object) -> logging.LogRecord:
    return logging.LogRecord("klamm", level, __file__, 1, {"event": message, "timestamp": object(), **fields}, (), None)


def written(lines: RepeatedLines, *records: logging.LogRecord) -> list[logging.LogRecord]:
    return [record for record in records if lines.filter(record)]


def test_the_same_line_is_written_a_few_times_and_then_counted() -> None:
    clock = Clock()
    lines = RepeatedLines(clock)
    first = written(lines, *(line("ISR change failed", partition="t-0") for _ in range(100)))
    assert len(first) == SAME_MAX
    clock.now = WINDOW_S
    (again,) = written(lines, line("ISR change failed", partition="t-0"))
    assert isinstance(again.msg, dict)
    assert again.msg["repeated"] == "97 similar lines suppressed"
    assert written(lines, line("ISR change failed", partition="t-1"), line("Another message", partition="t-0"))


def test_lines_that_differ_in_their_fields_only_are_limited_unless_they_are_errors() -> None:
    lines = RepeatedLines(Clock())
    assert len(written(lines, *(line("Log refused", partition=f"t-{n}") for n in range(500)))) == ALIKE_MAX
    errors = [line("Replica is damaged", logging.ERROR, partition=f"t-{n}") for n in range(500)]
    assert len(written(lines, *errors)) == 500


def test_the_table_of_texts_stays_small() -> None:
    clock = Clock()
    lines = RepeatedLines(clock)
    for number in range(30_000):
        clock.now += 0.01
        lines.filter(line("Request failed", logging.ERROR, request=number))
    assert len(lines._windows) <= 10_000


def test_lines_of_structlog_and_of_libraries_go_through_it() -> None:
    stream = io.StringIO()
    configure_diagnostics("broker", 1, stream=stream)
    for _ in range(20):
        structlog.stdlib.get_logger("a").warning("Not reachable", peer="b")
        logging.getLogger("kazoo").warning("Connection dropped: %s", "socket")
    events = [json.loads(text)["event"] for text in stream.getvalue().splitlines()]
    assert sorted(events) == ["Connection dropped: socket"] * SAME_MAX + ["Not reachable"] * SAME_MAX
