"""The damaged replicas of a log directory, in a file of it: a restart does not mend them.

The version, the number of entries, and each entry as an object of JSON in a line, in the manner of the other
checkpoints. Source: klamm. R9.33
"""

import json
from collections.abc import Iterable

import msgspec
from msgspec import Struct

from broker_agent.log.checkpoints import MalformedCheckpointError, decode_versioned_lines, encode_versioned_lines
from broker_agent.log_damage import DamagedReplica, LogDamage
from cluster.config.files import first_line
from cluster.model import bounds
from cluster.model.bounds import why_not
from cluster.model.broker import LeaderEpoch, Offset, TopicId
from cluster.model.errors import DECODE_ERRORS
from cluster.model.partition import TopicPartition


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
