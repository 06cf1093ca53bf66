"""Encodes and decodes topic znodes, `/brokers/topics/<topic>`, and partition state znodes.

Source: Kafka TopicZNode, TopicPartitionStateZNode; KIP-455 (reassignment), KIP-516 (topic ids).
"""

from functools import lru_cache
from typing import Annotated, Any, Final

import msgspec
from msgspec import Struct

from cluster.model import bounds
from cluster.model.bounds import why_not
from cluster.model.broker import BrokerId, ControllerEpoch, LeaderEpoch, PartitionEpoch, TopicId
from cluster.model.errors import DECODE_ERRORS, MalformedZnodeError
from cluster.model.partition import RECOVERED, LeaderAndIsr, ReplicaAssignment, TopicAssignment, TopicPartition
from cluster.znodes.bodies import LeaderId, ReplicaId, decode, require, require_count, within
from cluster.znodes.paths import partition_of_name, state_path, topic_path


class _Topic(Struct):
    partitions: dict[str, tuple[ReplicaId, ...]] = {}
    adding_replicas: dict[str, tuple[ReplicaId, ...]] = {}
    removing_replicas: dict[str, tuple[ReplicaId, ...]] = {}
    topic_id: TopicId | None = None


_topic_decoder = msgspec.json.Decoder(_Topic)


def encode_topic(topic: TopicAssignment) -> bytes:
    """Encode version 3; both maps are always present, with only the partitions that have a non-empty list (ZK-20)."""
    body: dict[str, Any] = {
        "version": 3,
        "partitions": {str(p): a.replicas for p, a in topic.partitions.items()},
        "adding_replicas": {str(p): a.adding for p, a in topic.partitions.items() if a.adding},
        "removing_replicas": {str(p): a.removing for p, a in topic.partitions.items() if a.removing},
    }
    if topic.topic_id is not None:
        body["topic_id"] = topic.topic_id
    return msgspec.json.encode(body)


_KEPT: Final = 8_192
"""Assignments and ISRs of which one object is kept for all partitions that have them; of 100,000 partitions on few
brokers most are the same.
"""
_assignment = lru_cache(_KEPT)(ReplicaAssignment)


@lru_cache(_KEPT)
def _without_duplicates(isr: tuple[BrokerId, ...]) -> tuple[BrokerId, ...]:
    return tuple(dict.fromkeys(isr))


def decode_topic(topic: str, data: bytes) -> TopicAssignment:
    """Decode a topic znode. Raises MalformedZnodeError, also for the name of the topic, which is the znode's."""
    path = topic_path(topic)
    require(path, data, bounds.TOPIC_NAME, topic)
    body = decode(_topic_decoder, path, data)
    require_count(path, data, bounds.PARTITIONS, body.partitions)
    if body.topic_id is not None:
        require(path, data, bounds.TOPIC_ID, body.topic_id)
    partitions: dict[int, ReplicaAssignment] = {}
    for name, replicas in body.partitions.items():
        partition = partition_of_name(name)
        if partition is None:
            raise MalformedZnodeError(path, data, why_not(bounds.PARTITION, name))
        lists = replicas, body.adding_replicas.get(name, ()), body.removing_replicas.get(name, ())
        for replica_list in filter(None, lists):
            require_count(path, data, bounds.REPLICAS, replica_list)
        partitions[partition] = _assignment(*lists)
    return TopicAssignment(partitions, body.topic_id)


class _State(Struct):
    leader: LeaderId
    leader_epoch: Annotated[LeaderEpoch, within(bounds.LEADER_EPOCH_IN_ZNODE)]
    isr: tuple[ReplicaId, ...]
    controller_epoch: Annotated[ControllerEpoch, within(bounds.CONTROLLER_EPOCH)]
    leader_recovery_state: Annotated[int, within(bounds.RECOVERY_STATE)] = RECOVERED


_state_decoder = msgspec.json.Decoder(_State)
_state_encoder = msgspec.json.Encoder()


class _StateBody(Struct):
    version: int
    leader: BrokerId
    leader_epoch: LeaderEpoch
    controller_epoch: ControllerEpoch
    isr: tuple[BrokerId, ...]


class _RecoveringStateBody(_StateBody):
    leader_recovery_state: int


def encode_state(leadership: LeaderAndIsr) -> bytes:
    """Encode without the partition epoch (ZK-27); with the recovery state only while RECOVERING (ZK-25)."""
    assert leadership.isr, "an ISR is never empty"
    values = (1, leadership.leader, leadership.leader_epoch, leadership.controller_epoch, leadership.isr)
    if leadership.leader_recovery_state == RECOVERED:
        return _state_encoder.encode(_StateBody(*values))
    return _state_encoder.encode(_RecoveringStateBody(*values, leadership.leader_recovery_state))


def decode_state(tp: TopicPartition, data: bytes, partition_epoch: PartitionEpoch) -> LeaderAndIsr | None:
    """Decode a partition state; None if it is not JSON (ZK-28). Raises MalformedZnodeError if a field is missing.

    A duplicate broker in the ISR is dropped; otherwise nobody could be removed from it.
    """
    try:
        body = _state_decoder.decode(data)
        if len(body.isr) > bounds.REPLICAS.maximum:
            raise MalformedZnodeError(state_path(tp), data, why_not(bounds.REPLICAS, f"{len(body.isr)} items"))
    except msgspec.ValidationError as error:
        raise MalformedZnodeError(state_path(tp), data, str(error)) from None
    except DECODE_ERRORS:
        return None
    return LeaderAndIsr(
        body.leader,
        body.leader_epoch,
        _without_duplicates(body.isr),
        body.controller_epoch,
        partition_epoch,
        body.leader_recovery_state,
    )
