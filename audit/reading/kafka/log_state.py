"""What is known of the logs of Apache Kafka that were read: levels, nodes, controllers, times."""

from collections.abc import Collection, Iterator, Sequence
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Final

from msgspec import Struct, field
from msgspec.structs import replace

from audit.chains.incarnations import OVERLAP_MS
from audit.records.findings import AuditFinding
from state_log.invariants import ONE_CONTROLLER_PER_EPOCH
from state_log.kafka.lines import BROKER

TRACE, INFO = "TRACE", "INFO"
_KEPT: Final = 20
_NAMED_MAX: Final = 20


class LevelChange(Struct, frozen=True):
    """The level at which a file is written from this byte on."""

    level: str
    offset: int


class Occurrences(Struct, frozen=True):
    """Says how often something occurred, and the byte of the first time."""

    count: int = 0
    first: int = 0

    def __add__(self, other: "Occurrences") -> "Occurrences":
        return Occurrences(self.count + other.count, self.first if self.count else other.first)


class Ruled(Struct, frozen=True):
    """A controller wrote something in this epoch; `record` is the first that shows it."""

    epoch: int
    controller: int
    record: str


class KafkaLines(Struct, frozen=True):
    """Holds what some consecutive lines of a file, or all of them, say.

    `without_facts`: lines of Kafka that state nothing a rule needs. `has_trace`: some are of level TRACE. `levels`:
    where it shows at which level the file is written. `untraced`: sums at TRACE that do not have all the messages they
    sum up before them. `skipped_times`: local times that the time zone does not have. `nodes`: ids of the brokers that
    wrote. `named`: other brokers, and the first record that names each.
    """

    zone: str
    lines: int
    without_facts: int
    has_trace: bool
    levels: tuple[LevelChange, ...]
    untraced: Occurrences
    skipped_times: Occurrences
    nodes: tuple[int, ...]
    ruled: tuple[Ruled, ...]
    named: dict[int, str]
    first_ms: int | None
    last_ms: int | None
    modified_ms: int


class KafkaLog(Struct, frozen=True):
    """One file, identified by what its first line says: it may have been renamed."""

    file: str
    records: int
    quarantined: int
    content: KafkaLines

    @property
    def level(self) -> str:
        shown = {level.level for level in self.content.levels}
        if len(shown) > 1:
            return "TRACE and INFO"
        return shown.pop() if shown else TRACE if self.content.has_trace else INFO


class KafkaState(Struct):
    """Holds what is known of all logs of Apache Kafka that were read. `ruled`: epoch -> controller -> the first
    record.
    """

    logs: dict[str, KafkaLog] = field(default_factory=dict)
    ruled: dict[int, dict[int, str]] = field(default_factory=dict)
    named: dict[int, str] = field(default_factory=dict)

    @property
    def brokers(self) -> set[int]:
        """The brokers whose logs these are."""
        return {node for log in self.logs.values() for node in log.content.nodes}


def add_lines(state: KafkaState, log: str, read: KafkaLog) -> list[AuditFinding]:
    """Add lines that follow those known of the log; return the findings about controllers that this brings."""
    known = state.logs.get(log)
    state.logs[log] = read if known is None else _joined(known, read)
    for broker, record in read.content.named.items():
        state.named.setdefault(broker, record)
    found = []
    for ruled in read.content.ruled:
        controllers = state.ruled.setdefault(ruled.epoch, {})
        if ruled.controller not in controllers:
            controllers[ruled.controller] = ruled.record
            if len(controllers) > 1:
                found.append(_two_controllers(ruled.epoch, controllers))
    return found


def _joined(known: KafkaLog, read: KafkaLog) -> KafkaLog:
    before, now = known.content, read.content
    levels = list(before.levels)
    levels += [level for level in now.levels if not levels or level.level != levels[-1].level]
    content = replace(
        now,
        zone=before.zone if now.zone in before.zone.split(" and ") else f"{before.zone} and {now.zone}",
        lines=before.lines + now.lines,
        without_facts=before.without_facts + now.without_facts,
        has_trace=before.has_trace or now.has_trace,
        levels=tuple(levels[:_KEPT]),
        untraced=before.untraced + now.untraced,
        skipped_times=before.skipped_times + now.skipped_times,
        nodes=tuple(sorted({*before.nodes, *now.nodes})),
        ruled=(),
        named={},
        first_ms=now.first_ms if before.first_ms is None else before.first_ms,
        last_ms=before.last_ms if now.last_ms is None else now.last_ms,
    )
    return KafkaLog(read.file, known.records + read.records, known.quarantined + read.quarantined, content)


def _two_controllers(epoch: int, controllers: dict[int, str]) -> AuditFinding:
    ids = sorted(controllers)
    message = f"brokers {' and '.join(map(str, ids))} were the controller in controller epoch {epoch}"
    records = tuple(controllers[controller] for controller in ids)
    return AuditFinding(ONE_CONTROLLER_PER_EPOCH, f"controller-epoch {epoch} of Apache Kafka's logs", message, records)


def gaps(state: KafkaState, require_trace: bool, governing: Collection[int] = ()) -> Iterator[tuple[str, str]]:
    """The (what, why) of what is missing or cannot be relied on.

    `governing`: ids of klamm's controllers, which write no logs of Kafka's kind.
    """
    logs = sorted(state.logs.values(), key=lambda log: log.file)
    for log in logs:
        yield from ((log.file, why) for why in _gaps_of(log, require_trace))
    yield from _levels_of_brokers(logs)
    yield from _overlaps(logs)
    zones = sorted({log.content.zone for log in logs})
    if len(zones) > 1:
        yield "--timezone", f"the logs were read as of {' and '.join(zones)}: audit them into a new --output"
    missing = sorted(set(state.named) - state.brokers - set(governing))
    if missing:
        more = "" if len(missing) <= _NAMED_MAX else f" and {len(missing) - _NAMED_MAX} more"
        brokers = ", ".join(map(str, missing[:_NAMED_MAX]))
        yield (
            f"Kafka brokers {brokers}{more}",
            f"there are no logs of theirs, though {state.named[missing[0]]} names one",
        )


def _gaps_of(log: KafkaLog, require_trace: bool) -> Iterator[str]:
    content = log.content
    if len({level.level for level in content.levels}) > 1:
        runs = ", ".join(f"{level.level} from byte {level.offset}" for level in content.levels)
        yield f"its level changes: {runs}; what only TRACE has is missing in between"
    elif require_trace and log.level != TRACE:
        yield "it is of level INFO, and --require-trace was given: set log4j.logger.state.change.logger=TRACE"
    if content.untraced.count:
        yield (
            f"TRACE lines are missing: {content.untraced.count} messages sum up more of them than stand before, the "
            f"first at byte {content.untraced.first}"
        )
    if content.skipped_times.count:
        yield (
            f"{content.skipped_times.count} lines have a local time that {content.zone} does not have, the first at "
            f"byte {content.skipped_times.first}: is --timezone right?"
        )
    if content.last_ms is not None and content.last_ms > content.modified_ms + _AHEAD_MS:
        ahead = (content.last_ms - content.modified_ms) // 60_000
        yield f"its last line is {ahead} minutes later than its last change: is --timezone right? It is {content.zone}"
    if len(content.nodes) > 1:
        yield f"it has lines of the brokers {', '.join(map(str, content.nodes))}: a log is of one broker"


_AHEAD_MS: Final = 600_000


def _levels_of_brokers(logs: Sequence[KafkaLog]) -> Iterator[tuple[str, str]]:
    by_broker: dict[int, dict[str, str]] = {}
    for log in logs:
        for node in log.content.nodes:
            by_broker.setdefault(node, {}).setdefault(log.level, Path(log.file).name)
    for node, files in sorted(by_broker.items()):
        if len(files) > 1:
            said = ", ".join(f"{level} in {file}" for level, file in sorted(files.items()))
            yield f"{BROKER}{node}", f"its logs have different levels: {said}; what only TRACE has is missing in some"


def _overlaps(logs: Sequence[KafkaLog]) -> Iterator[tuple[str, str]]:
    """Logs of one broker follow each other: others are of another cluster, or two brokers have one id."""
    timed = [log for log in logs if log.content.first_ms is not None and log.content.last_ms is not None]
    for node in sorted({node for log in timed for node in log.content.nodes}):
        own = [log for log in timed if node in log.content.nodes]
        for before, log in pairwise(sorted(own, key=lambda log: (log.content.first_ms, log.file))):
            overlap_ms = (before.content.last_ms or 0) - (log.content.first_ms or 0)
            if overlap_ms > OVERLAP_MS:
                names = f"{Path(before.file).name} and {Path(log.file).name}"
                yield (
                    f"{BROKER}{node}",
                    f"its logs {names} overlap by {overlap_ms / 1000:.1f} s: of two clusters? Each has its own audit",
                )


def describe_time(ms: int | None) -> str | None:
    """Write a time as ISO 8601 in UTC."""
    return None if ms is None else datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds")
