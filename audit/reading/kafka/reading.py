"""Reads a range of a state-change.log of Apache Kafka: records of the audit, and what the lines were.

A record's `incarnation` is the identity of the file (`state_log.kafka.files`), its `seq` the byte at which its line
begins. Lines do not say which process wrote them or whether lines before them are missing: there is no chain to check.
"""

import re
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Final

import numpy
import pyarrow

from audit.chains.incarnations import CLOCK_STEP_MS, Span, joined, spans_of
from audit.reading.kafka.log_state import INFO, TRACE, KafkaLines, LevelChange, Occurrences, Ruled
from audit.reading.kafka.rows import kafka_keys
from audit.reading.lines_read import Quarantine, ReadRange, line_blocks, modified_ns
from audit.reading.log_files import Range, file_text
from audit.reading.node_work import WorkRead
from audit.records.columns import to_columns
from state_log.kafka.lines import HEADER, KafkaLine, line_of, record_of
from state_log.kafka.local_time import LocalTimes
from state_log.kafka.message_fields import UnclearMessageError
from state_log.record import LINE_BYTES_MAX, LoggedStateChange

_CONTINUES: Final = re.compile(
    r"\s+at .*|Caused by: .*|\s+\.\.\. \d+ (?:more|common frames omitted)|\s+Suppressed: .*"
    r"|[\w.$]+(?:Exception|Error|Throwable)(?:: .*)?"
)
_CAN_CONTINUE: Final = frozenset({"WARN", "ERROR", "FATAL"})
_LOOK_BACK_BYTES: Final = 1 << 16


class KafkaSummary:
    """Reads the lines of a range in blocks, and keeps what they were."""

    def __init__(self, part: Range, zone: str) -> None:
        self._range, self._zone = part, zone
        self._quarantine = Quarantine(part.path)
        self._parser = _Parser(LocalTimes(zone))
        self._levels = _Levels()
        self._work = WorkRead()
        self._records = self._lines = self._without_facts = 0
        self._has_trace = False
        self._nodes: set[int] = set()
        self._ruled: dict[tuple[int, int], str] = {}
        self._named: dict[int, str] = {}
        self._spans: dict[str, Span] = {}
        self._first_ms: int | None = None
        self._last_ms: int | None = None

    def columns(self) -> Iterator[pyarrow.RecordBatch]:
        """The records, some thousand at a time."""
        self._read_before()
        for offset, lines in line_blocks(self._range):
            records = self._records_of(offset, lines)
            if records:
                columns = _with_own_keys(to_columns(records))
                self._add_spans(columns)
                self._work.add(columns)
                self._records += len(records)
                yield columns

    def result(self) -> ReadRange:
        content = KafkaLines(
            zone=self._zone,
            lines=self._lines,
            without_facts=self._without_facts,
            has_trace=self._has_trace,
            levels=tuple(self._levels.shown),
            untraced=self._levels.untraced,
            skipped_times=self._parser.skipped_times,
            nodes=tuple(sorted(self._nodes)),
            ruled=tuple(Ruled(epoch, node, record) for (epoch, node), record in sorted(self._ruled.items())),
            named=self._named,
            first_ms=self._first_ms,
            last_ms=self._last_ms,
            modified_ms=modified_ns(self._range.path) // 1_000_000,
        )
        return ReadRange(
            self._range.log,
            file_text(self._range.path),
            self._range.end,
            self._records,
            self._quarantine.count,
            (),
            tuple(self._spans.values()),
            tuple(self._quarantine.lines),
            content,
            modified_ns=modified_ns(self._range.path),
            size=self._range.end - self._range.first,
            work=self._work.work,
        )

    def _read_before(self) -> None:
        """Read what the lines before the range say of its first ones: time, level, whether a stack trace continues."""
        first = self._range.first
        if not first:
            return
        begin = max(0, first - _LOOK_BACK_BYTES)
        for offset, lines in line_blocks(self._range._replace(first=begin, end=first)):
            at = offset
            # The first line is cut, unless it begins the file.
            for number, line in enumerate(lines):
                if number or not begin:
                    parsed = self._parser.parse(at, line)
                    if isinstance(parsed, KafkaLine):
                        self._levels.add(parsed)
                at += len(line) + 1
        self._levels.forget_shown()
        self._parser.skipped_times = Occurrences()

    def _records_of(self, offset: int, lines: Sequence[bytes]) -> list[LoggedStateChange]:
        found = []
        for line in lines:
            parsed = self._parser.parse(offset, line)
            if isinstance(parsed, KafkaLine):
                record = self._add(parsed)
                if record is not None:
                    found.append(record)
            elif parsed:
                self._quarantine.add(offset, line, parsed)
            elif line:
                self._lines += 1
                self._without_facts += 1
            offset += len(line) + 1
        return found

    def _add(self, line: KafkaLine) -> LoggedStateChange | None:
        self._lines += 1
        self._has_trace |= line.level == TRACE
        self._levels.add(line)
        self._nodes.add(line.node)
        self._first_ms = line.at_ms if self._first_ms is None else self._first_ms
        self._last_ms = line.at_ms
        reference = f"{line.node_name}/{self._range.log}/{line.offset}"
        if line.is_controller and line.epoch is not None:
            self._ruled.setdefault((line.epoch, line.node), reference)
        for broker in line.said.sent_to:
            self._named.setdefault(broker, reference)
        if line.said.by is not None:
            self._named.setdefault(line.said.by[0], reference)
            self._ruled.setdefault((line.said.by[1], line.said.by[0]), reference)
        record = record_of(line, self._range.log)
        self._without_facts += record is None
        return record

    def _add_spans(self, columns: pyarrow.RecordBatch) -> None:
        table = pyarrow.Table.from_batches([columns])
        order = numpy.argsort(table["node"].cast(pyarrow.string()).to_numpy(zero_copy_only=False), kind="stable")
        by_node = table.take(pyarrow.array(order)).combine_chunks().to_batches()
        for span in spans_of(by_node[0]):
            self._spans[span.node] = joined(self._spans.get(span.node), span)


class _Parser:
    """Parses lines in their order. `skipped_times`: see `KafkaLines`."""

    def __init__(self, times: LocalTimes) -> None:
        self._times = times
        self._continues = False
        self._last_ms = 0
        self.skipped_times = Occurrences()

    def parse(self, offset: int, raw: bytes) -> KafkaLine | str:
        """Read what the line says, or why it is none of Kafka's lines; an empty text if it belongs to the one before
        it.
        """
        if len(raw) > LINE_BYTES_MAX:
            return f"{len(raw)} bytes are more than {LINE_BYTES_MAX}"
        try:
            line = raw.decode().removesuffix("\r")
        except UnicodeDecodeError as error:
            return f"is no UTF-8: {error.reason}"
        found = HEADER.fullmatch(line)
        if found is not None:
            return self._parsed(offset, found)
        return "" if not line or (self._continues and _CONTINUES.fullmatch(line)) else _why_no_header(line)

    def _parsed(self, offset: int, found: re.Match[str]) -> KafkaLine | str:
        self._continues = found[3] in _CAN_CONTINUE
        try:
            return line_of(offset, found, partial(self._at_ms, offset))
        except UnclearMessageError as error:
            return str(error)
        except (ValueError, OverflowError) as error:
            return f"{found[1]}: {error}"

    def _at_ms(self, offset: int, second: str) -> int:
        moment = self._times.moment(second)
        if not moment.exists:
            self.skipped_times += Occurrences(1, offset)
        came_again = moment.first_ms < self._last_ms - CLOCK_STEP_MS and moment.is_ambiguous
        self._last_ms = moment.second_ms if came_again else moment.first_ms
        return self._last_ms


class _Levels:
    """Finds out at which level lines were written: an INFO message that sums up TRACE messages has these before it.

    For the first sum of a request it is unknown how many of them are in the file before.
    """

    def __init__(self) -> None:
        self.shown: list[LevelChange] = []
        self.untraced = Occurrences()
        self._details: dict[str, int] = {}
        self._summed: set[str] = set()

    def add(self, line: KafkaLine) -> None:
        if line.said.detail_of:
            self._details[line.said.detail_of] = self._details.get(line.said.detail_of, 0) + 1
        if line.said.sum_of is None:
            return
        request, count = line.said.sum_of
        details, is_first = self._details.pop(request, 0), request not in self._summed
        self._summed.add(request)
        if not count or (is_first and details < count):
            return
        level = TRACE if details else INFO
        if not self.shown or self.shown[-1].level != level:
            self.shown.append(LevelChange(level, line.offset))
        if 0 < details < count:
            self.untraced += Occurrences(1, line.offset)

    def forget_shown(self) -> None:
        self.shown.clear()
        self.untraced = Occurrences()


def _why_no_header(line: str) -> str:
    if not line.endswith("(state.change.logger)"):
        return "does not end with (state.change.logger): it is cut, or log4j has another layout than [%d] %p %m (%c)%n"
    return "does not begin with [time] LEVEL [Controller id=N epoch=N] or [Broker id=N]"


def _with_own_keys(columns: pyarrow.RecordBatch) -> pyarrow.RecordBatch:
    place = columns.schema.get_field_index("key")
    key = columns.column(place).to_numpy(zero_copy_only=False).astype(numpy.uint64)
    return columns.set_column(place, "key", pyarrow.array(kafka_keys(key)))
