"""Validates ISR changes proposed by leaders; each refusal has its error code.

The order of the checks is part of the contract. Epoch errors precede content errors, because the leader may only be
behind. Idempotence is checked before the partition epoch, so that a repeated request succeeds (IS-11). The sender must
be the leader: accepted from another replica, the proposal would make that one the leader under an epoch that brokers
know already, so that none of them takes it over (D-105). Whether the ISR is a subset of the replicas is not checked:
the epochs imply it (IS-12). Source: Kafka KafkaController.processAlterPartition; KIP-497, KIP-704; for the sender
KRaft's ReplicationControlManager.
"""

from typing import Final

from msgspec import Struct

from cluster.model.broker import BrokerId, ControllerEpoch, PartitionEpoch
from cluster.model.errors import ErrorCode
from cluster.model.partition import RECOVERED, RECOVERING, LeaderAndIsr, TopicPartition
from cluster.requests.agents import AlterPartitionItem, AlterPartitionRequest, AlterPartitionResult
from controller.decisions.context_view import ContextView

_RECOVERY_STATES: Final = (RECOVERED, RECOVERING)


class AcceptedProposal(Struct, frozen=True):
    """An accepted item: write `leadership` if the partition epoch in ZooKeeper is one less."""

    position: int
    topic_partition: TopicPartition
    leadership: LeaderAndIsr


class IsrChangePlan(Struct, frozen=True):
    """`results`: one entry per item of the request, None if it depends on the outcome of the write.

    `partitions`: those whose topic is known; all of them are sent to brokers, also refused ones (IS-15).
    """

    results: tuple[AlterPartitionResult | None, ...]
    accepted: tuple[AcceptedProposal, ...]
    partitions: tuple[TopicPartition, ...]


def refuse_alter_partition(view: ContextView, request: AlterPartitionRequest) -> ErrorCode:
    """The error that refuses the whole request, NONE if it is accepted (IS-6 to IS-8)."""
    if view.brokers.epochs.get(request.broker_id) != request.broker_epoch:
        return ErrorCode.STALE_BROKER_EPOCH
    if any(item.leader_recovery_state not in _RECOVERY_STATES for item in request.partitions):
        return ErrorCode.UNKNOWN_SERVER_ERROR
    if any(len(item.new_isr_epochs) not in (0, len(item.new_isr)) for item in request.partitions):
        return ErrorCode.INVALID_REQUEST
    return ErrorCode.NONE


def plan_isr_changes(view: ContextView, request: AlterPartitionRequest) -> IsrChangePlan:
    """Validate each item against the leadership in the view (IS-9, IS-10)."""
    results: list[AlterPartitionResult | None] = []
    accepted: list[AcceptedProposal] = []
    partitions: dict[TopicPartition, None] = {}
    for position, item in enumerate(request.partitions):
        topic = item.topic_name if item.topic_id is None else view.topics.names_by_id.get(item.topic_id)
        if topic is None:
            results.append(refusal(item, _unknown_id(view)))
            continue
        tp = TopicPartition(topic, item.partition_index)
        partitions[tp] = None
        leadership = view.leaderships.known.get(tp)
        if leadership is None:
            results.append(refusal(item, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
        elif _is_already_so(request.broker_id, item, leadership):
            results.append(success(item, leadership))
        elif (code := _refuse(view, request.broker_id, tp, item, leadership)) is not ErrorCode.NONE:
            results.append(refusal(item, code))
        else:
            results.append(None)
            accepted.append(AcceptedProposal(position, tp, _proposed(request.broker_id, item, view.epoch)))
    return IsrChangePlan(tuple(results), tuple(accepted), tuple(partitions))


def _unknown_id(view: ContextView) -> ErrorCode:
    """The code for an id of no topic. It may be that of one whose id is lost (D-102): then the leader must not give up
    until the next leader epoch, but go back to the ISR it has, and ask again.
    """
    return ErrorCode.INELIGIBLE_REPLICA if len(view.topics.ids) < len(view.topics.names) else ErrorCode.UNKNOWN_TOPIC_ID


def _refuse(
    view: ContextView, sender: BrokerId, tp: TopicPartition, item: AlterPartitionItem, leadership: LeaderAndIsr
) -> ErrorCode:
    code = refuse_proposal(sender, item, leadership, view.brokers.live_ids)
    if code is ErrorCode.NONE and (_is_outdated(view, item) or _is_to_delete_first(view, tp, item)):
        return _ineligible(item)
    return code


def _is_to_delete_first(view: ContextView, tp: TopicPartition, item: AlterPartitionItem) -> bool:
    """Whether a member still has a deleted topic of the name: what it fetches of this one goes with that (D-99)."""
    return any(view.deletions.has_left_replicas(broker, tp.topic) for broker in item.new_isr)


def _is_outdated(view: ContextView, item: AlterPartitionItem) -> bool:
    """Whether the proposal names an ISR member with the epoch of an earlier incarnation, which may have lost records
    since.

    Other epochs are not checked, as in ZooKeeper mode: the broker is live, and IS-10 requires no more. Source: KIP-903.
    """
    if not item.new_isr_epochs:
        return False
    members = zip(item.new_isr, item.new_isr_epochs, strict=True)
    return any(0 < epoch < view.brokers.epochs[broker] for broker, epoch in members)


def _is_already_so(sender: BrokerId, item: AlterPartitionItem, leadership: LeaderAndIsr) -> bool:
    """Whether the proposal repeats one accepted before; the ISR is compared as an ordered list (IS-9e)."""
    return (
        item.leader_epoch == leadership.leader_epoch
        and sender == leadership.leader
        and item.new_isr == leadership.isr
        and item.leader_recovery_state == leadership.leader_recovery_state
        and item.partition_epoch <= leadership.partition_epoch
    )


def refuse_proposal(
    sender: BrokerId, item: AlterPartitionItem, leadership: LeaderAndIsr, live_brokers: frozenset[BrokerId]
) -> ErrorCode:
    """The error that refuses a proposed change of `leadership`; NONE if it may be written.

    Expects that the caller has already answered proposals that repeat the current state.
    """
    code = _compared_epochs(sender, item, leadership)
    if code is not ErrorCode.NONE:
        return code
    if item.leader_recovery_state == RECOVERING and (
        len(item.new_isr) > 1 or leadership.leader_recovery_state == RECOVERED
    ):
        return ErrorCode.INVALID_REQUEST
    if not item.new_isr:
        # Kafka has no such check, but an empty ISR would leave no replica that may lead (INV-3).
        return ErrorCode.INVALID_REQUEST
    return ErrorCode.NONE if live_brokers.issuperset(item.new_isr) else _ineligible(item)


def _compared_epochs(sender: BrokerId, item: AlterPartitionItem, leadership: LeaderAndIsr) -> ErrorCode:
    """Whether the sender leads under these epochs; the order is KRaft's."""
    if item.partition_epoch > leadership.partition_epoch or item.leader_epoch > leadership.leader_epoch:
        # The sender has newer epochs than this controller, which has probably been replaced.
        return ErrorCode.NOT_CONTROLLER
    if item.leader_epoch < leadership.leader_epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    if sender != leadership.leader:
        return ErrorCode.INVALID_REQUEST
    return ErrorCode.INVALID_UPDATE_VERSION if item.partition_epoch < leadership.partition_epoch else ErrorCode.NONE


def _ineligible(item: AlterPartitionItem) -> ErrorCode:
    """The code for an ineligible replica; senders that name the topic predate INELIGIBLE_REPLICA (KIP-841)."""
    return ErrorCode.OPERATION_NOT_ATTEMPTED if item.topic_id is None else ErrorCode.INELIGIBLE_REPLICA


def _proposed(sender: BrokerId, item: AlterPartitionItem, controller_epoch: ControllerEpoch) -> LeaderAndIsr:
    """The leadership to write (IS-13): same leader epoch; the write increments the partition epoch (IS-18)."""
    return LeaderAndIsr(
        sender,
        item.leader_epoch,
        item.new_isr,
        controller_epoch,
        PartitionEpoch(item.partition_epoch + 1),
        item.leader_recovery_state,
    )


def refusal(item: AlterPartitionItem, code: ErrorCode) -> AlterPartitionResult:
    return AlterPartitionResult(item.topic_name, item.topic_id, item.partition_index, code)


def success(item: AlterPartitionItem, leadership: LeaderAndIsr) -> AlterPartitionResult:
    return AlterPartitionResult(
        item.topic_name,
        item.topic_id,
        item.partition_index,
        ErrorCode.NONE,
        leadership.leader,
        leadership.leader_epoch,
        leadership.isr,
        leadership.leader_recovery_state,
        leadership.partition_epoch,
    )
