"""Replays all controllers' logs in folders, with what brokers' logs say of states that leaders wrote themselves."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from cluster.model.broker import ControllerEpoch
from cluster.model.partition import LeaderAndIsr
from controller.replay.replay import LogReplay, ReadState, Replayed
from controller.replay.term import leadership_of
from state_log.causes import is_written_isr
from state_log.reader import complete_lines, find_segments
from state_log.record import LoggedStateChange, MalformedLine, decode_line

_Place = tuple[str | None, str | None, int | None, int]
"""Topic, topic id, partition, partition epoch."""


class WrittenStates:
    """The states that leaders wrote to the state znodes themselves, as their logs have them."""

    def __init__(self) -> None:
        self._states: dict[_Place, LeaderAndIsr] = {}

    def add(self, record: LoggedStateChange) -> None:
        if is_written_isr(record) and None not in {record.leader, record.leader_epoch, record.partition_epoch}:
            state = leadership_of(record, ControllerEpoch(record.controller_epoch or 0))
            self._states[record.topic, record.topic_id, record.partition, state.partition_epoch] = state

    def before(self, record: LoggedStateChange) -> LeaderAndIsr | None:
        """The state at the partition epoch before that of the record."""
        epoch = (record.partition_epoch or 0) - 1
        return self._states.get((record.topic, record.topic_id, record.partition, epoch))


def replay_records(logs: Mapping[str, Sequence[LoggedStateChange]]) -> Replayed:
    """Replay the logs of incarnations, by `node/incarnation`, each in the order of its numbers."""
    replayed, written = Replayed(), WrittenStates()
    for log in logs.values():
        for record in log:
            written.add(record)
    for name in sorted(logs):
        if name.startswith("controller-"):
            replay_one(logs[name], replayed, written.before)
    return replayed


def replay_one(records: Iterable[LoggedStateChange], replayed: Replayed, read_state: ReadState) -> None:
    """Replay the log of one incarnation of a controller."""
    log = LogReplay(replayed, read_state)
    for record in records:
        log.take(record)
    log.finish()


def read_records(folders: Iterable[Path], replayed: Replayed) -> Iterator[LoggedStateChange]:
    """The records of all logs in these folders; malformed lines count as what could not be decided."""
    for path in find_segments(folders):
        for line in complete_lines(path):
            record = decode_line(line)
            if isinstance(record, MalformedLine):
                replayed.add_undecided("lines that are no records", str(path))
            else:
                yield record
