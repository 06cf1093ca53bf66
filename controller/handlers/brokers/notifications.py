"""Handles failed log directories and ISR changes that brokers report through ZooKeeper or in responses.

Source: Kafka KafkaController.processLogDirEventNotification, processLeaderAndIsrResponseReceived,
processIsrChangeNotification; KIP-112.
"""

from collections import Counter

import structlog

from cluster.model.broker import BrokerId
from cluster.model.errors import ErrorCode
from cluster.model.partition import TopicPartition
from cluster.model.state_machines import ReplicaState
from cluster.requests.control import LeaderAndIsrPartitionError, LeaderAndIsrResponse
from cluster.znodes.admin_requests import decode_log_dir_event, decode_partitions
from cluster.znodes.paths import ISR_CHANGE_NOTIFICATION, LOG_DIR_EVENT_NOTIFICATION
from cluster.zookeeper.decoding import decode_each
from controller.active_controller import ActiveController
from controller.changes import LeadershipsWritten, OfflineReplicasReported
from controller.decisions.brokers.log_directories import classify_directories
from controller.handlers.brokers.broker_changes import replicas_came_back, replicas_went_offline
from controller.handlers.brokers.damaged_replicas import forget_healed
from controller.handlers.partitions.replica_transitions import move_replicas
from controller.handlers.reassignment.engine import complete_reassignments
from state_log.causes import READ_FROM_LEADER

_log = structlog.stdlib.get_logger()


async def log_dir_event_notification(active: ActiveController) -> None:
    """Send all hosted partitions to brokers of which a log directory failed, or is back; they answer with the offline
    ones (BK-50).
    """
    context = active.context
    found = await active.store.read_children(LOG_DIR_EVENT_NOTIFICATION)
    try:
        announced = sorted(set(decode_each(found.keys(), found.values(), decode_log_dir_event).values()))
        if announced:
            _log.warning("Brokers reported log directories that failed or are back", brokers=announced)
        # An unregistered broker gets no request, and its replicas are offline already.
        registered = [broker for broker in announced if broker in context.brokers.registered_ids]
        await move_replicas(active, {b: context.topics.partitions_on(b) for b in registered}, ReplicaState.ONLINE)
    finally:
        await active.store.delete_znodes(found)


async def isr_change_notification(active: ActiveController) -> None:
    """Read ISRs that leaders wrote to state znodes and send UpdateMetadata to all brokers (IS-2 to IS-4)."""
    found = await active.store.read_children(ISR_CHANGE_NOTIFICATION)
    try:
        listed = decode_each(found.keys(), found.values(), decode_partitions)
        partitions = sorted({tp for partitions in listed.values() for tp in partitions})
        if partitions:
            await _take_over(active, partitions)
    finally:
        await active.store.delete_znodes(found)


async def leader_and_isr_answered(active: ActiveController, broker: BrokerId, response: LeaderAndIsrResponse) -> None:
    """Process a LeaderAndIsr response: replicas reported in offline log directories go offline (BK-51, BK-52); those
    that no longer are may lead, be reassigned and be deleted (D-121).

    An error in a response never makes a controller step down: only ZooKeeper says whether it was replaced (FN-9).
    """
    context = active.context
    if response.error_code is not ErrorCode.NONE:
        _log.warning("Broker refused LeaderAndIsr", broker=broker, error=response.error_code.name)
        return
    codes = Counter(e.error_code.name for e in response.partition_errors if _is_refusal(e))
    if codes:
        _log.warning("Broker refused LeaderAndIsr for partitions", broker=broker, errors=dict(codes))
    if broker not in context.brokers.registered_ids:
        # The broker was seen to fail before this response; its replicas are offline already.
        return
    news = classify_directories(
        context, context.brokers.offline_directories.get(broker, frozenset()), response.partition_errors
    )
    active.commit(OfflineReplicasReported(broker, news.offline))
    if news.lost:
        _log.warning("Replicas went offline in failed log directories", broker=broker, partitions=len(news.lost))
        await replicas_went_offline(active, {broker: news.lost})
    if news.back:
        _log.info("Replicas are back from failed log directories", broker=broker, partitions=len(news.back))
        await replicas_came_back(active, broker, news.back)


def _is_refusal(error: LeaderAndIsrPartitionError) -> bool:
    """Whether the broker refuses the state of a partition.

    It does not if the request says nothing new, such as a copy: then its leader epoch is the one that the broker has.
    """
    if error.error_code is ErrorCode.STALE_CONTROLLER_EPOCH:
        return error.leader_epoch >= 0
    return error.error_code is not ErrorCode.NONE


async def _take_over(active: ActiveController, partitions: list[TopicPartition]) -> None:
    context = active.context
    # Without an assignment (as with a malformed topic znode) the partition would stay in the context after its topic.
    states = await active.store.read_states([tp for tp in partitions if context.topics.assignment(tp).replicas])
    changed = {tp: leadership for tp, leadership in states.items() if leadership != context.leaderships.known.get(tp)}
    active.commit(LeadershipsWritten(changed, READ_FROM_LEADER))
    forget_healed(active, changed)
    batch = active.new_batch()
    batch.add_update_metadata_for_all(partitions)
    active.send(batch)
    await complete_reassignments(active, partitions)
