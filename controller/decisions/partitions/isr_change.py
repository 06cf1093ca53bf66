"""Whether a leader's proposed ISR may be written: every refusal has its error code.

The order of the tests is part of the contract: epoch errors win over content errors, because the leader may
simply be behind, and idempotence comes before the partition epoch, so that a repeated request succeeds (IS-11).
Nothing asks whether the sender leads or whether the ISR is a subset of the replicas: the epochs are relied on
(IS-12). Source: Kafka KafkaController.processAlterPartition; KIP-497, KIP-704.
"""

from typing import Final

from msgspec import Struct

from cluster.broker import BrokerId, ControllerEpoch, PartitionEpoch
from cluster.errors import ErrorCode
from cluster.partition import RECOVERED, RECOVERING, LeaderAndIsr, TopicPartition
from cluster.requests.agents import AlterPartitionItem, AlterPartitionRequest, AlterPartitionResult
from controller.decisions.context_view import ContextView

_RECOVERY_STATES: Final = (RECOVERED, RECOVERING)


class Proposal(Struct, frozen=True):
    """An accepted item: write `leadership` if the partition epoch is still one less."""

    position: int
    topic_partition: TopicPartition
    leadership: LeaderAndIsr


class IsrChangePlan(Struct, frozen=True):
    """`results` has one entry per item of the request, None where the outcome of the write decides.

    `partitions` are those whose topic is known: all of them are announced, refused ones too (IS-15).
    """

    results: tuple[AlterPartitionResult | None, ...]
    accepted: tuple[Proposal, ...]
    partitions: tuple[TopicPartition, ...]


def refuse_alter_partition(view: ContextView, request: AlterPartitionRequest) -> ErrorCode:
    """What is wrong with the request as a whole (IS-6 to IS-8), NONE if nothing."""
    if view.broker_epochs.get(request.broker_id) != request.broker_epoch:
        return ErrorCode.STALE_BROKER_EPOCH
    if any(item.leader_recovery_state not in _RECOVERY_STATES for item in request.partitions):
        return ErrorCode.UNKNOWN_SERVER_ERROR
    if any(len(item.new_isr_epochs) not in (0, len(item.new_isr)) for item in request.partitions):
        return ErrorCode.INVALID_REQUEST
    return ErrorCode.NONE


def plan_isr_changes(view: ContextView, request: AlterPartitionRequest) -> IsrChangePlan:
    """Judge each item against the leadership of the view (IS-9, IS-10)."""
    results: list[AlterPartitionResult | None] = []
    accepted: list[Proposal] = []
    partitions: dict[TopicPartition, None] = {}
    for position, item in enumerate(request.partitions):
        topic = item.topic_name if item.topic_id is None else view.topic_names.get(item.topic_id)
        if topic is None:
            results.append(refusal(item, ErrorCode.UNKNOWN_TOPIC_ID))
            continue
        tp = TopicPartition(topic, item.partition_index)
        partitions[tp] = None
        leadership = view.leaderships.get(tp)
        if leadership is None:
            results.append(refusal(item, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
        elif _is_already_so(request.broker_id, item, leadership):
            results.append(success(item, leadership))
        elif (code := _refuse(view, item, leadership)) is not ErrorCode.NONE:
            results.append(refusal(item, code))
        else:
            results.append(None)
            accepted.append(Proposal(position, tp, _proposed(request.broker_id, item, view.epoch)))
    return IsrChangePlan(tuple(results), tuple(accepted), tuple(partitions))


def _refuse(view: ContextView, item: AlterPartitionItem, leadership: LeaderAndIsr) -> ErrorCode:
    code = refuse_proposal(item, leadership, view.live_broker_ids)
    if code is ErrorCode.NONE and _is_outdated(view, item):
        return _ineligible(item)
    return code


def _is_outdated(view: ContextView, item: AlterPartitionItem) -> bool:
    """Whether a member fetched in an earlier life than its present one, before it may have lost records (KIP-903).

    Any other epoch is passed over, as in ZooKeeper mode: its broker is live, and IS-10 asks for no more.
    """
    if not item.new_isr_epochs:
        return False
    members = zip(item.new_isr, item.new_isr_epochs, strict=True)
    return any(0 < epoch < view.broker_epochs[broker] for broker, epoch in members)


def _is_already_so(sender: BrokerId, item: AlterPartitionItem, leadership: LeaderAndIsr) -> bool:
    """A repetition of what was accepted before (IS-9e). The ISR counts as an ordered list."""
    return (
        item.leader_epoch == leadership.leader_epoch
        and sender == leadership.leader
        and item.new_isr == leadership.isr
        and item.leader_recovery_state == leadership.leader_recovery_state
        and item.partition_epoch <= leadership.partition_epoch
    )


def refuse_proposal(item: AlterPartitionItem, leadership: LeaderAndIsr, live_brokers: frozenset[BrokerId]) -> ErrorCode:
    """The error that refuses a proposed change of `leadership`; NONE if it may be written.

    Expects that the caller has already answered proposals that repeat the current state.
    """
    if item.partition_epoch > leadership.partition_epoch or item.leader_epoch > leadership.leader_epoch:
        # The sender knows more than this controller, which has probably been replaced.
        return ErrorCode.NOT_CONTROLLER
    if item.leader_epoch < leadership.leader_epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    if item.partition_epoch < leadership.partition_epoch:
        return ErrorCode.INVALID_UPDATE_VERSION
    if item.leader_recovery_state == RECOVERING and (
        len(item.new_isr) > 1 or leadership.leader_recovery_state == RECOVERED
    ):
        return ErrorCode.INVALID_REQUEST
    if not item.new_isr:
        # Kafka has no such test, but an empty ISR would leave nobody who may lead (INV-3).
        return ErrorCode.INVALID_REQUEST
    return ErrorCode.NONE if live_brokers.issuperset(item.new_isr) else _ineligible(item)


def _ineligible(item: AlterPartitionItem) -> ErrorCode:
    """Who names the topic instead of its id speaks the versions from before there was a code of its own (KIP-841)."""
    return ErrorCode.OPERATION_NOT_ATTEMPTED if item.topic_id is None else ErrorCode.INELIGIBLE_REPLICA


def _proposed(sender: BrokerId, item: AlterPartitionItem, controller_epoch: ControllerEpoch) -> LeaderAndIsr:
    """What to write (IS-13): the leader epoch stays, the partition epoch goes up by the write (IS-18)."""
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
