"""Validation of control requests: first the epochs, then the action for each partition state.

Source: Kafka ReplicaManager.becomeLeaderOrFollower, stopReplicas; KIP-380 (broker epochs), KIP-516 (topic ids).
"""

from enum import Enum
from typing import Final

from cluster.model.broker import (
    LEADER_EPOCH_DURING_DELETE,
    NO_LEADER_EPOCH,
    UNKNOWN_BROKER_EPOCH,
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    LeaderEpoch,
    TopicId,
)
from cluster.model.errors import ErrorCode
from cluster.requests.control import LeaderAndIsrPartitionState

_SKIPPED_EPOCHS: Final = (NO_LEADER_EPOCH, LEADER_EPOCH_DURING_DELETE)


def validate_epochs(
    *,
    broker_epoch: BrokerEpoch,
    own_broker_epoch: BrokerEpoch,
    controller_epoch: ControllerEpoch,
    known_controller_epoch: ControllerEpoch,
) -> ErrorCode:
    """The code of a whole control request: NONE, or the error for a stale epoch (R1.16, R2.2).

    A larger broker epoch is accepted: the controller may learn of a registration before the broker does. A smaller one
    was meant for an earlier incarnation, whose replicas it might stop or delete here; a smaller controller epoch is
    that of a controller that has been replaced and may not know it yet.
    """
    if broker_epoch != UNKNOWN_BROKER_EPOCH and broker_epoch < own_broker_epoch:
        return ErrorCode.STALE_BROKER_EPOCH
    if controller_epoch < known_controller_epoch:
        return ErrorCode.STALE_CONTROLLER_EPOCH
    return ErrorCode.NONE


class RoleAction(Enum):
    """The action for one partition state of a LeaderAndIsr request."""

    LEAD = "lead"
    FOLLOW = "follow"
    STORE_TOPIC_ID = "store topic id"
    CLEAR_TOPIC_ID = "clear topic id"
    """Only in the fetcher's state: the controller's request had no topic id."""
    REFUSE_TOPIC_ID = "refuse topic id"
    REFUSE_NOT_REPLICA = "refuse not replica"
    REFUSE_EPOCH = "refuse epoch"

    @property
    def code(self) -> ErrorCode:
        """The error code to answer, unless carrying the action out fails."""
        return _ADMISSION_CODES.get(self, ErrorCode.NONE)


_ADMISSION_CODES: Final = {
    RoleAction.REFUSE_TOPIC_ID: ErrorCode.INCONSISTENT_TOPIC_ID,
    RoleAction.REFUSE_NOT_REPLICA: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    RoleAction.REFUSE_EPOCH: ErrorCode.STALE_CONTROLLER_EPOCH,
}


def classify_state(
    state: LeaderAndIsrPartitionState,
    *,
    own_id: BrokerId,
    current_epoch: LeaderEpoch,
    topic_id: TopicId | None,
    log_topic_id: TopicId | None,
    log_epoch: LeaderEpoch = NO_LEADER_EPOCH,
) -> RoleAction:
    """Choose the action for one partition state (R2.3). Topic ids are compared before any epoch.

    An equal leader epoch is a repeated request; it can only set or clear the topic id. One below `log_epoch`, the
    latest in the log, comes from a ZooKeeper that was restored from a backup: a replica that obeyed after a restart
    would truncate acknowledged records (R2.18).
    """
    if topic_id is not None and log_topic_id is not None and topic_id != log_topic_id:
        return RoleAction.REFUSE_TOPIC_ID
    if state.leader_epoch > current_epoch and state.leader_epoch >= log_epoch:
        if own_id not in state.replicas:
            return RoleAction.REFUSE_NOT_REPLICA
        return RoleAction.LEAD if state.leader == own_id else RoleAction.FOLLOW
    if state.leader_epoch == current_epoch:
        if topic_id is not None and log_topic_id is None:
            return RoleAction.STORE_TOPIC_ID
        if topic_id is None and log_topic_id is not None and state.leader != own_id:
            return RoleAction.CLEAR_TOPIC_ID
    return RoleAction.REFUSE_EPOCH


def validate_stop(
    requested_epoch: LeaderEpoch,
    current_epoch: LeaderEpoch,
    topic_id: TopicId | None = None,
    log_topic_id: TopicId | None = None,
) -> ErrorCode:
    """Whether a partition that is not offline accepts a StopReplica (R4.2, R4.15); sentinel epochs are not checked."""
    if topic_id is not None and log_topic_id is not None and topic_id != log_topic_id:
        return ErrorCode.INCONSISTENT_TOPIC_ID
    if requested_epoch in _SKIPPED_EPOCHS or requested_epoch >= current_epoch:
        return ErrorCode.NONE
    return ErrorCode.FENCED_LEADER_EPOCH
