"""The damaged replicas of all log directories of an agent, and the file in which each directory keeps its own.

A restart does not mend them. The file has the version, the number of entries, and each entry as an object of JSON in a
line, in the manner of the other checkpoints. Source: klamm. R9.33
"""

import json
from collections.abc import Callable, Iterable

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from broker_agent.log.checkpoints import MalformedCheckpointError, decode_versioned_lines, encode_versioned_lines
from broker_agent.log_damage import DamagedReplica, LogDamage
from cluster.config.files import first_line
from cluster.model import bounds
from cluster.model.bounds import why_not
from cluster.model.broker import LeaderEpoch, Offset, TopicId
from cluster.model.errors import DECODE_ERRORS
from cluster.model.partition import TopicPartition


class KnownDamage:
    """By partition and first offset: one replica can be damaged in several places, and lack records in one."""

    def __init__(self) -> None:
        self._replicas: dict[TopicPartition, dict[Offset | None, DamagedReplica]] = {}
        self.unsaved: set[str] = set()
        """Log directories whose file must be written again."""

    @property
    def all(self) -> tuple[DamagedReplica, ...]:
        return tuple(replica for places in self._replicas.values() for replica in places.values())

    def of(self, topic_partition: TopicPartition) -> tuple[DamagedReplica, ...]:
        return tuple(self._replicas.get(topic_partition, {}).values())

    def load(self, replicas: Iterable[DamagedReplica]) -> None:
        """Add what the file of a directory has."""
        for replica in replicas:
            self._replicas.setdefault(replica.topic_partition, {})[_place(replica)] = replica

    def add(self, replica: DamagedReplica) -> None:
        """Add one, in place of one that begins at the same offset, or of the same doubt."""
        self.load((replica,))
        self.unsaved.add(replica.directory)

    def add_found(self, replica: DamagedReplica) -> None:
        """Add what was found at the start. Known damage that goes further, by checkpoints that are rewritten since, is
        merely found again.
        """
        known = self._replicas.get(replica.topic_partition, {}).get(replica.damage.from_offset)
        if known is not None and known.damage.to_offset >= replica.damage.to_offset:
            replica = replace(replica, damage=known.damage)
        self.add(replica)

    def remove(self, replica: DamagedReplica) -> None:
        places = self._replicas.get(replica.topic_partition, {})
        if places.pop(_place(replica), None) is not None:
            self.unsaved.add(replica.directory)
            if not places:
                del self._replicas[replica.topic_partition]

    def remove_where(self, is_gone: Callable[[DamagedReplica], bool]) -> None:
        for replica in [replica for replica in self.all if is_gone(replica)]:
            self.remove(replica)

    def moved(self, topic_partition: TopicPartition, path: str) -> None:
        """Take note that a replica was moved to another log directory, as it is."""
        for replica in self.of(topic_partition):
            self.remove(replica)
            self.add(replace(replica, directory=path))

    def directory_failed(self, path: str) -> None:
        """Forget the directory; its file stays as it is: it can be neither read nor written."""
        self.remove_where(lambda replica: replica.directory == path)
        self.unsaved.discard(path)

    def in_directory(self, path: str) -> list[DamagedReplica]:
        return [replica for replica in self.all if replica.directory == path]


def _place(replica: DamagedReplica) -> Offset | None:
    return None if replica.is_in_doubt else replica.damage.from_offset


class _Entry(Struct, frozen=True, omit_defaults=True):
    topic: str
    partition: int
    from_offset: int
    to_offset: int
    size: int
    reason: str
    found_by: str
    topic_id: str | None = None
    is_cut: bool = True
    is_end_known: bool = True
    has_led: bool = False
    left_isr_in: int = -1


def encode_damaged_replicas(replicas: Iterable[DamagedReplica]) -> bytes:
    # ASCII only: a path may have characters that end a line.
    return encode_versioned_lines(json.dumps(msgspec.to_builtins(_entry(replica))) for replica in replicas)


def decode_damaged_replicas(content: bytes | None, directory: str) -> list[DamagedReplica]:
    """The replicas in a directory's file; none without a file. Raises MalformedCheckpointError."""
    return [_replica(line, directory) for line in decode_versioned_lines(content)]


def _entry(replica: DamagedReplica) -> _Entry:
    damage, tp = replica.damage, replica.topic_partition
    return _Entry(
        tp.topic,
        tp.partition,
        damage.from_offset,
        damage.to_offset,
        damage.size,
        damage.reason,
        replica.found_by,
        topic_id=replica.topic_id,
        is_cut=damage.is_cut,
        is_end_known=damage.is_end_known,
        has_led=replica.has_led,
        left_isr_in=replica.left_isr_in,
    )


def _replica(line: str, directory: str) -> DamagedReplica:
    try:
        entry = msgspec.json.decode(line, type=_Entry)
    except DECODE_ERRORS as error:
        raise MalformedCheckpointError(first_line(error)) from None
    for bound, value in (
        (bounds.TOPIC_NAME, entry.topic),
        (bounds.PARTITION, entry.partition),
        (bounds.OFFSET, entry.from_offset),
        (bounds.OFFSET, entry.to_offset),
        (bounds.OFFSET, entry.size),
        (bounds.LEADER_EPOCH_OR_NONE, entry.left_isr_in),
        (bounds.TOPIC_ID, entry.topic_id),
    ):
        if value is not None and not bound.accepts(value):
            raise MalformedCheckpointError(why_not(bound, value))
    return DamagedReplica(
        TopicPartition(entry.topic, entry.partition),
        None if entry.topic_id is None else TopicId(entry.topic_id),
        directory,
        LogDamage(
            Offset(entry.from_offset),
            Offset(entry.to_offset),
            entry.size,
            entry.reason,
            is_cut=entry.is_cut,
            is_end_known=entry.is_end_known,
        ),
        entry.found_by,
        has_led=entry.has_led,
        left_isr_in=LeaderEpoch(entry.left_isr_in),
    )
