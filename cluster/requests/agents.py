"""Requests from brokers to the controller: AlterPartition, ControlledShutdown and AllocateProducerIds."""

from msgspec import Struct

from cluster.broker import UNKNOWN_BROKER_EPOCH, BrokerEpoch, BrokerId, LeaderEpoch, PartitionEpoch, TopicId
from cluster.errors import ErrorCode
from cluster.partition import RECOVERED


class AlterPartitionItem(Struct, frozen=True):
    """One proposal. The topic is addressed by id; by name only where the topic has no id.

    `new_isr_epochs`: empty, or for each member the broker epoch under which it fetched, -1 where that does not matter.
    """

    topic_name: str
    topic_id: TopicId | None
    partition_index: int
    leader_epoch: LeaderEpoch
    new_isr: tuple[BrokerId, ...]
    partition_epoch: PartitionEpoch
    leader_recovery_state: int = RECOVERED
    new_isr_epochs: tuple[BrokerEpoch, ...] = ()


class AlterPartitionRequest(Struct, frozen=True):
    broker_id: BrokerId
    broker_epoch: BrokerEpoch
    partitions: tuple[AlterPartitionItem, ...]


class AlterPartitionResult(Struct, frozen=True):
    """The fields after `error_code` mean something on success only."""

    topic_name: str
    topic_id: TopicId | None
    partition_index: int
    error_code: ErrorCode
    leader_id: BrokerId = BrokerId(-1)
    leader_epoch: LeaderEpoch = LeaderEpoch(-1)
    isr: tuple[BrokerId, ...] = ()
    leader_recovery_state: int = RECOVERED
    partition_epoch: PartitionEpoch = PartitionEpoch(-1)


class AlterPartitionResponse(Struct, frozen=True):
    error_code: ErrorCode
    partitions: tuple[AlterPartitionResult, ...] = ()


class ControlledShutdownRequest(Struct, frozen=True):
    """`broker_epoch` -1: not checked."""

    broker_id: BrokerId
    broker_epoch: BrokerEpoch = UNKNOWN_BROKER_EPOCH


class RemainingPartition(Struct, frozen=True):
    topic_name: str
    partition_index: int


class ControlledShutdownResponse(Struct, frozen=True):
    """`remaining_partitions`: those that the broker still leads."""

    error_code: ErrorCode
    remaining_partitions: tuple[RemainingPartition, ...] = ()


class AllocateProducerIdsRequest(Struct, frozen=True):
    broker_id: BrokerId
    broker_epoch: BrokerEpoch = UNKNOWN_BROKER_EPOCH


class AllocateProducerIdsResponse(Struct, frozen=True):
    """A block of ids that nobody else gets: `producer_id_len` of them from `producer_id_start`."""

    error_code: ErrorCode
    producer_id_start: int = -1
    producer_id_len: int = 0
