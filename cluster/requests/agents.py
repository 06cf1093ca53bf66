"""Requests from brokers to the controller: ISR changes, controlled shutdown, producer ids and damaged replicas."""

from typing import Annotated, Final

from msgspec import Struct

from cluster.model import bounds
from cluster.model.broker import (
    NO_LEADER_EPOCH,
    UNKNOWN_BROKER_EPOCH,
    BrokerEpoch,
    BrokerId,
    LeaderEpoch,
    Offset,
    PartitionEpoch,
    TopicId,
)
from cluster.model.errors import ErrorCode
from cluster.model.partition import RECOVERED
from cluster.requests.control import RequestCause
from cluster.requests.field_types import PartitionIndex, Replicas, String, TopicName
from cluster.requests.request import RequestFor

RECOVERY: Final = "recovery"
SCRUB: Final = "scrub"
"""What finds damage: the start of a broker, or the scrub in the background."""
UNCLEAN_SHUTDOWN: Final = "unclean_shutdown"
"""Nothing is known to be damaged, but the machine was restarted without a clean shutdown of the broker: what was not
flushed may be gone."""


class AlterPartitionItem(Struct, frozen=True):
    """One proposed ISR. The topic is identified by id, by name only if it has no id.

    `new_isr_epochs`: empty, or the broker epoch with which each member fetched, -1 if not checked.
    """

    topic_name: Annotated[str, bounds.TOPIC_NAME_OR_NONE]
    topic_id: TopicId | None
    partition_index: PartitionIndex
    leader_epoch: LeaderEpoch
    new_isr: Replicas
    partition_epoch: PartitionEpoch
    leader_recovery_state: Annotated[int, bounds.RECOVERY_STATE] = RECOVERED
    new_isr_epochs: tuple[BrokerEpoch, ...] = ()


class AlterPartitionRequest(RequestFor["AlterPartitionResponse"], frozen=True):
    broker_id: BrokerId
    broker_epoch: BrokerEpoch
    partitions: tuple[AlterPartitionItem, ...]


class AlterPartitionResult(Struct, frozen=True):
    """The fields after `error_code` are only valid on success."""

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
    """`cause`: the event in which the controller wrote what it accepted, None if it wrote nothing."""

    error_code: ErrorCode
    partitions: tuple[AlterPartitionResult, ...] = ()
    cause: RequestCause | None = None


class ControlledShutdownRequest(RequestFor["ControlledShutdownResponse"], frozen=True):
    """`broker_epoch` -1: not checked."""

    broker_id: BrokerId
    broker_epoch: BrokerEpoch = UNKNOWN_BROKER_EPOCH


class RemainingPartition(Struct, frozen=True):
    topic_name: str
    partition_index: int


class ControlledShutdownResponse(Struct, frozen=True):
    """`remaining_partitions`: those the broker still leads."""

    error_code: ErrorCode
    remaining_partitions: tuple[RemainingPartition, ...] = ()


class AllocateProducerIdsRequest(RequestFor["AllocateProducerIdsResponse"], frozen=True):
    broker_id: BrokerId
    broker_epoch: BrokerEpoch = UNKNOWN_BROKER_EPOCH


class AllocateProducerIdsResponse(Struct, frozen=True):
    """A block of `producer_id_len` ids from `producer_id_start`, allocated to this broker only."""

    error_code: ErrorCode
    producer_id_start: int = -1
    producer_id_len: int = 0


class ReportedDamage(Struct, frozen=True):
    """A replica without some of its records: offsets from `from_offset` up to, not including, `to_offset`.

    `size`: bytes that were cut off. `found_by`: RECOVERY, SCRUB or UNCLEAN_SHUTDOWN, of which both offsets are the log
    end. `is_end_known`: whether no later ones are missing. `log_epoch`: the leader epoch of the newest record that is
    left, -1 if it is not known or there is none.
    """

    topic_name: TopicName
    topic_id: TopicId | None
    partition_index: PartitionIndex
    from_offset: Offset
    to_offset: Offset
    size: Annotated[int, bounds.OFFSET]
    found_by: String
    is_end_known: bool = True
    log_epoch: LeaderEpoch = NO_LEADER_EPOCH


class ReportDamagedReplicasRequest(RequestFor["ReportDamagedReplicasResponse"], frozen=True):
    broker_id: BrokerId
    broker_epoch: BrokerEpoch
    replicas: tuple[ReportedDamage, ...]


class DamagedReplicaResult(Struct, frozen=True):
    """ELIGIBLE_LEADERS_NOT_AVAILABLE: no other replica can lead, and the broker reports again later."""

    topic_name: str
    partition_index: int
    error_code: ErrorCode


class ReportDamagedReplicasResponse(Struct, frozen=True):
    error_code: ErrorCode
    replicas: tuple[DamagedReplicaResult, ...] = ()
