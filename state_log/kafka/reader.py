"""Reads the state-change.log files of Apache Kafka for the history of one partition.

What is no Kafka line is skipped, as the reader of klamm's logs does; the audit keeps and counts it. Of a partition
these are kept: what a controller of Kafka's decided, and the roles that brokers took. The rest says the same once more.
"""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from cluster.model.partition import TopicPartition
from state_log.kafka.files import KafkaFiles, is_compressed, is_kafka_name
from state_log.kafka.lines import HEADER, KafkaLine, line_of, record_of
from state_log.kafka.local_time import LocalTimes
from state_log.kafka.message_fields import CACHED, UnclearMessageError
from state_log.reader import files_below, numbered_lines
from state_log.record import Kind, LoggedStateChange

_KEPT: Final = frozenset({Kind.PARTITION, Kind.ISR, Kind.ROLE})


def read_kafka_state_changes(
    directories: Iterable[Path], wanted: TopicPartition, zone: str
) -> Iterator[LoggedStateChange]:
    """The records of a partition in all files of Kafka's in these directory trees.

    `zone`: of the local times in them, a name of the time zone database. Raises ZoneInfoNotFoundError.
    """
    times, files, seen = LocalTimes(zone), KafkaFiles(), set[str]()
    for path in files_below(directories, _is_readable):
        identity = files.identify(path)
        if identity is not None and identity not in seen:
            seen.add(identity)
            yield from _records(path, identity, wanted, times)


def with_topic_id(records: Sequence[LoggedStateChange], own: Iterable[LoggedStateChange]) -> list[LoggedStateChange]:
    """The records with the id that the topic has in klamm's records; as they are if it has had several, or none."""
    ids = {record.topic_id for record in own if record.topic_id is not None}
    return [replace(record, topic_id=next(iter(ids))) for record in records] if len(ids) == 1 else list(records)


def _is_readable(name: str) -> bool:
    """Whether a file is named as Kafka names its logs, and is not compressed."""
    return is_kafka_name(name) and not is_compressed(name)


def _records(path: Path, identity: str, wanted: TopicPartition, times: LocalTimes) -> Iterator[LoggedStateChange]:
    topic = wanted.topic.encode()
    for offset, raw in numbered_lines(path):
        # Most lines are of other partitions, and the name is found faster than a line is read.
        line = _line(offset, raw, times) if topic in raw else None
        record = None if line is None else record_of(line, identity)
        if record is None or (record.topic, record.partition) != wanted:
            continue
        if record.kind in _KEPT and record.to_state != CACHED:
            yield record


def _line(offset: int, raw: bytes, times: LocalTimes) -> KafkaLine | None:
    found = HEADER.fullmatch(raw.decode(errors="replace").removesuffix("\r"))
    if found is None:
        return None
    try:
        return line_of(offset, found, lambda second: times.moment(second).first_ms)
    except (UnclearMessageError, ValueError, OverflowError):
        return None
