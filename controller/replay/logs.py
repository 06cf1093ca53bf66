"""Replays all controllers' logs in folders, with what brokers' logs say of states that leaders wrote themselves.

The lines of one log at a time are in memory, of the others only such states. Of Kafka's logs all records are.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path

from cluster.model.broker import ControllerEpoch
from cluster.model.partition import LeaderAndIsr
from cluster.model.printable import path_text
from controller.replay.kafka_log import read_kafka_records, replay_kafka_records
from controller.replay.replay import LogReplay, ReadState, Replayed
from controller.replay.term import has_leadership, leadership_of
from state_log.causes import ISR_WRITTEN, is_written_isr
from state_log.reader import complete_lines, find_segments
from state_log.record import LoggedStateChange, MalformedLine, decode_line
from state_log.writer import parse_segment_name

MALFORMED = "lines that are no records"
UNREADABLE = "files that cannot be read"
CONTROLLER = "controller-"
_Place = tuple[str | None, str | None, int | None, int]
"""Topic, topic id, partition, partition epoch."""


class WrittenStates:
    """The states that leaders wrote to the state znodes themselves, as their logs have them."""

    def __init__(self) -> None:
        self._states: dict[_Place, LeaderAndIsr] = {}

    def add(self, record: LoggedStateChange) -> None:
        if is_written_isr(record) and has_leadership(record):
            state = leadership_of(record, ControllerEpoch(record.controller_epoch or 0))
            self._states[record.topic, record.topic_id, record.partition, state.partition_epoch] = state

    def before(self, record: LoggedStateChange) -> LeaderAndIsr | None:
        """The state at the partition epoch before that of the record."""
        epoch = (record.partition_epoch or 0) - 1
        return self._states.get((record.topic, record.topic_id, record.partition, epoch))


def replay_folders(folders: Sequence[Path], zone: str = "UTC") -> Replayed:
    """Replay the logs of klamm's and of Kafka's controllers in these folders, searched in depth.

    `zone`: of the local times in Kafka's logs. Raises ZoneInfoNotFoundError.
    """
    replayed, written = Replayed(), WrittenStates()
    segments = find_segments(folders)
    for path in segments:
        for line in _lines(path, replayed):
            record = decode_line(line) if ISR_WRITTEN.encode() in line else None
            if isinstance(record, LoggedStateChange):
                written.add(record)
    for name, paths in sorted(_by_log(segments).items()):
        if name.startswith(CONTROLLER):
            lines = chain.from_iterable(_lines(path, replayed) for path in paths)
            replay_one(_records(lines, replayed, name), replayed, written.before)
    replay_kafka_records(list(read_kafka_records(folders, zone, replayed)), replayed)
    return replayed


def replay_records(logs: Mapping[str, Sequence[LoggedStateChange]]) -> Replayed:
    """Replay logs, by `node/incarnation`, each in the order of its numbers."""
    replayed, written = Replayed(), WrittenStates()
    for record in chain.from_iterable(logs.values()):
        written.add(record)
    for name in sorted(logs):
        if name.startswith(CONTROLLER):
            replay_one(logs[name], replayed, written.before)
    return replayed


def replay_one(records: Iterable[LoggedStateChange], replayed: Replayed, read_state: ReadState) -> None:
    """Replay the log of one incarnation of a controller."""
    log = LogReplay(replayed, read_state)
    for record in records:
        log.take(record)
    log.finish()


def _by_log(segments: Iterable[Path]) -> dict[str, list[Path]]:
    """Find the segments of each log, by `node/incarnation`, in the order of their lines."""
    found: dict[str, list[tuple[int, Path]]] = {}
    for path in segments:
        name = parse_segment_name(path.name)
        if name is not None:
            found.setdefault(f"{name.node}/{name.incarnation}", []).append((name.first_seq, path))
    return {name: [path for _, path in sorted(paths)] for name, paths in found.items()}


def _lines(path: Path, replayed: Replayed) -> Iterator[bytes]:
    try:
        yield from complete_lines(path)
    except OSError as error:
        replayed.add_undecided(UNREADABLE, f"{path_text(path)}: {error.strerror}")


def _records(lines: Iterable[bytes], replayed: Replayed, log: str) -> Iterator[LoggedStateChange]:
    for line in lines:
        record = decode_line(line)
        if isinstance(record, MalformedLine):
            replayed.add_undecided(MALFORMED, log)
        else:
            yield record
