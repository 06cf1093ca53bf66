"""Requests of operators and brokers to the controller: elections, reassignments, ISR and log directory changes."""

from collections.abc import Iterable, Mapping, Sequence

import msgspec
from msgspec import Struct

from cluster.model.broker import BrokerId
from cluster.model.partition import TopicPartition
from cluster.znodes.bodies import Int32, ReplicaId, decode
from cluster.znodes.paths import REASSIGN_PARTITIONS


class _PartitionRef(Struct):
    topic: str
    partition: Int32


class _Partitions(Struct):
    partitions: list[_PartitionRef]


_partitions_decoder = msgspec.json.Decoder(_Partitions)


def encode_partitions(partitions: Iterable[TopicPartition]) -> bytes:
    """Encode the partitions of an election request."""
    return msgspec.json.encode({"version": 1, "partitions": [{"topic": t, "partition": p} for t, p in partitions]})


def decode_partitions(path: str, data: bytes) -> list[TopicPartition]:
    """Decode the partitions of an election request. Raises MalformedZnodeError."""
    body = decode(_partitions_decoder, path, data)
    return [TopicPartition(item.topic, item.partition) for item in body.partitions]


class _ReassignmentEntry(Struct, forbid_unknown_fields=True):
    topic: str
    partition: Int32
    replicas: tuple[ReplicaId, ...]


class _Reassignments(Struct, forbid_unknown_fields=True):
    partitions: list[_ReassignmentEntry]
    version: int = 1


_reassignments_decoder = msgspec.json.Decoder(_Reassignments)


def encode_reassignments(targets: Mapping[TopicPartition, Sequence[BrokerId]]) -> bytes:
    """Encode the target replicas of partitions, as `/admin/reassign_partitions` has them."""
    entries = [{"topic": tp.topic, "partition": tp.partition, "replicas": t} for tp, t in targets.items()]
    return msgspec.json.encode({"version": 1, "partitions": entries})


def decode_reassignments(data: bytes) -> dict[TopicPartition, tuple[BrokerId, ...]]:
    """Target replicas by partition; a later entry replaces an earlier one (ZK-33).

    Strict: an unknown field or a wrong type makes the whole document malformed (ZK-34).
    """
    body = decode(_reassignments_decoder, REASSIGN_PARTITIONS, data)
    return {TopicPartition(entry.topic, entry.partition): entry.replicas for entry in body.partitions}


class _LogDirEvent(Struct):
    broker: ReplicaId


_log_dir_event_decoder = msgspec.json.Decoder(_LogDirEvent)


def encode_log_dir_event(broker: BrokerId) -> bytes:
    """Event 1: a log directory of the broker failed; Kafka has no other (KIP-112). One that is back is announced in the
    same way: the controller asks which replicas are offline.
    """
    return msgspec.json.encode({"version": 1, "broker": broker, "event": 1})


def decode_log_dir_event(path: str, data: bytes) -> BrokerId:
    """The broker whose log directory failed."""
    return decode(_log_dir_event_decoder, path, data).broker
