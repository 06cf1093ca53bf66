"""Which orders of the controller an agent obeys: epochs first, then what each partition state asks for.

Source: Kafka ReplicaManager.becomeLeaderOrFollower, stopReplicas; KIP-380 (broker epochs), KIP-516 (topic ids).
"""

from enum import Enum
from typing import Final

from cluster.broker import (
    LEADER_EPOCH_DURING_DELETE,
    NO_LEADER_EPOCH,
    UNKNOWN_BROKER_EPOCH,
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    LeaderEpoch,
    TopicId,
)
from cluster.errors import ErrorCode
from cluster.requests.control import LeaderAndIsrPartitionState

_SKIPPED_EPOCHS: Final = (NO_LEADER_EPOCH, LEADER_EPOCH_DURING_DELETE)


def validate_epochs(
    *,
    broker_epoch: BrokerEpoch,
    own_broker_epoch: BrokerEpoch,
    controller_epoch: ControllerEpoch,
    known_controller_epoch: ControllerEpoch,
) -> ErrorCode:
    """The code of a whole control request: NONE, or which of its epochs is stale (R1.16, R2.2).

    A larger broker epoch is fine: the controller may hear of a registration before the broker does.
    """
    if broker_epoch != UNKNOWN_BROKER_EPOCH and broker_epoch < own_broker_epoch:
        return ErrorCode.STALE_BROKER_EPOCH
    if controller_epoch < known_controller_epoch:
        return ErrorCode.STALE_CONTROLLER_EPOCH
    return ErrorCode.NONE


class Admission(Enum):
    """What becomes of one partition state of a LeaderAndIsr request."""

    LEAD = "lead"
    FOLLOW = "follow"
    STORE_TOPIC_ID = "store topic id"
    CLEAR_TOPIC_ID = "clear topic id"
    """Only in the fetcher's state: the controller's request came without an id."""
    REFUSE_TOPIC_ID = "refuse topic id"
    REFUSE_NOT_REPLICA = "refuse not replica"
    REFUSE_EPOCH = "refuse epoch"

    @property
    def code(self) -> ErrorCode:
        """What is answered unless carrying it out fails."""
        return _ADMISSION_CODES.get(self, ErrorCode.NONE)


_ADMISSION_CODES: Final = {
    Admission.REFUSE_TOPIC_ID: ErrorCode.INCONSISTENT_TOPIC_ID,
    Admission.REFUSE_NOT_REPLICA: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    Admission.REFUSE_EPOCH: ErrorCode.STALE_CONTROLLER_EPOCH,
}


def classify_state(
    state: LeaderAndIsrPartitionState,
    *,
    own_id: BrokerId,
    current_epoch: LeaderEpoch,
    topic_id: TopicId | None,
    log_topic_id: TopicId | None,
) -> Admission:
    """Judge one partition state against the hosted partition (R2.3). Topic ids are compared before any epoch.

    An equal leader epoch is an order that was obeyed before; it can only bring or withdraw the topic id.
    """
    if topic_id is not None and log_topic_id is not None and topic_id != log_topic_id:
        return Admission.REFUSE_TOPIC_ID
    if state.leader_epoch > current_epoch:
        if own_id not in state.replicas:
            return Admission.REFUSE_NOT_REPLICA
        return Admission.LEAD if state.leader == own_id else Admission.FOLLOW
    if state.leader_epoch == current_epoch:
        if topic_id is not None and log_topic_id is None:
            return Admission.STORE_TOPIC_ID
        if topic_id is None and log_topic_id is not None and state.leader != own_id:
            return Admission.CLEAR_TOPIC_ID
    return Admission.REFUSE_EPOCH


def validate_stop(requested_epoch: LeaderEpoch, current_epoch: LeaderEpoch) -> ErrorCode:
    """Whether an online partition obeys a StopReplica (R4.2); the sentinels skip the test."""
    if requested_epoch in _SKIPPED_EPOCHS or requested_epoch >= current_epoch:
        return ErrorCode.NONE
    return ErrorCode.FENCED_LEADER_EPOCH
