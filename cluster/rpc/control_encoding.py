"""Encodes LeaderAndIsr and UpdateMetadata; parts shared by several requests are encoded once.

On the wire an element of a repeated message field is its tag, its length and its bytes, and concatenated messages
merge. So a partition state can be encoded once, cached as long as a queued request carries it, and copied into the
requests of all brokers that host the partition.
"""

from typing import Final

from msgspec.structs import replace

from cluster.model.broker import Broker
from cluster.model.partition import RECOVERED
from cluster.requests.control import (
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrTopicState,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)
from cluster.rpc.codec import codec_for
from cluster.rpc.encoded_parts import EncodedParts
from klamm.v1 import control_pb2

_leader_and_isr: Final = codec_for(LeaderAndIsrRequest, control_pb2.LeaderAndIsrRequest)
_update_metadata: Final = codec_for(UpdateMetadataRequest, control_pb2.UpdateMetadataRequest)
_broker: Final = codec_for(Broker, control_pb2.Broker)


def encode_leader_and_isr(request: LeaderAndIsrRequest) -> bytes:
    topics = [_length_prefixed(4, _leader_and_isr_topic(topic)) for topic in request.topic_states]
    return b"".join([_leader_and_isr.encode(replace(request, topic_states=())), *topics])


def encode_update_metadata(request: UpdateMetadataRequest) -> bytes:
    header = _update_metadata.encode(replace(request, topic_states=(), live_brokers=()))
    topics = [_update_metadata_topics.bytes_of(topic) for topic in request.topic_states]
    brokers = [_live_brokers.bytes_of(broker) for broker in request.live_brokers]
    return b"".join([header, *topics, *brokers])


def _leader_and_isr_topic(topic: LeaderAndIsrTopicState) -> bytes:
    header = control_pb2.LeaderAndIsrTopicState(topic_name=topic.topic_name, topic_id=topic.topic_id)
    parts = [_leader_and_isr_partitions.bytes_of(state) for state in topic.partition_states]
    return b"".join([header.SerializeToString(), *parts])


def _leader_and_isr_partition(state: LeaderAndIsrPartitionState) -> bytes:
    message = control_pb2.LeaderAndIsrPartitionState(
        partition_index=state.partition_index,
        controller_epoch=state.controller_epoch,
        leader=state.leader,
        leader_epoch=state.leader_epoch,
        isr=state.isr,
        partition_epoch=state.partition_epoch,
        replicas=state.replicas,
    )
    if state.adding_replicas:
        message.adding_replicas.extend(state.adding_replicas)
    if state.removing_replicas:
        message.removing_replicas.extend(state.removing_replicas)
    if state.is_new:
        message.is_new = True
    if state.leader_recovery_state != RECOVERED:
        message.leader_recovery_state = state.leader_recovery_state
    return _length_prefixed(3, message.SerializeToString())


def _update_metadata_topic(topic: UpdateMetadataTopicState) -> bytes:
    header = control_pb2.UpdateMetadataTopicState(topic_name=topic.topic_name, topic_id=topic.topic_id)
    parts = [header.SerializeToString()]
    parts.extend([_length_prefixed(3, _update_metadata_partition(state)) for state in topic.partition_states])
    return _length_prefixed(4, b"".join(parts))


def _update_metadata_partition(state: UpdateMetadataPartitionState) -> bytes:
    message = control_pb2.UpdateMetadataPartitionState(
        partition_index=state.partition_index,
        controller_epoch=state.controller_epoch,
        leader=state.leader,
        leader_epoch=state.leader_epoch,
        isr=state.isr,
        zk_version=state.zk_version,
        replicas=state.replicas,
    )
    if state.offline_replicas:
        message.offline_replicas.extend(state.offline_replicas)
    return message.SerializeToString()


def _length_prefixed(field_number: int, data: bytes) -> bytes:
    """One element of a repeated message field: tag of wire type 2, length as a varint, bytes."""
    length = len(data)
    prefix = bytearray((field_number << 3 | 2,))
    while length >= 0x80:
        prefix.append(length & 0x7F | 0x80)
        length >>= 7
    prefix.append(length)
    return bytes(prefix) + data


_leader_and_isr_partitions: Final = EncodedParts(_leader_and_isr_partition)
_update_metadata_topics: Final = EncodedParts(_update_metadata_topic)
_live_brokers: Final = EncodedParts[Broker](lambda broker: _length_prefixed(5, _broker.encode(broker)))
