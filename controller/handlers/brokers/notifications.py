"""What brokers announce through ZooKeeper or in their answers: failed disks, and ISRs that leaders wrote themselves.

Source: Kafka KafkaController.processLogDirEventNotification, processLeaderAndIsrResponseReceived,
processIsrChangeNotification; KIP-112.
"""

from collections import Counter

import structlog

from cluster.broker import BrokerId
from cluster.errors import ErrorCode
from cluster.partition import TopicPartition
from cluster.requests.control import LeaderAndIsrResponse
from cluster.state_machines import ReplicaState
from cluster.znodes.admin_requests import decode_log_dir_event, decode_partitions
from cluster.znodes.paths import ISR_CHANGE_NOTIFICATION, LOG_DIR_EVENT_NOTIFICATION
from cluster.zookeeper.decoding import decode_each
from controller.active_controller import ActiveController
from controller.changes import LeadershipsWritten, OfflineReplicasReported
from controller.decisions.brokers.log_directories import classify_directories
from controller.handlers.brokers.broker_changes import replicas_went_offline
from controller.handlers.partitions.replica_transitions import move_replicas
from controller.handlers.reassignment.engine import complete_reassignments

_log = structlog.stdlib.get_logger()


async def log_dir_event_notification(active: ActiveController) -> None:
    """Brokers lost disks: send them all they host, to learn from the answers what is gone (BK-50)."""
    context = active.context
    found = await active.store.read_children(LOG_DIR_EVENT_NOTIFICATION)
    try:
        announced = sorted(set(decode_each(found.keys(), found.values(), decode_log_dir_event).values()))
        if announced:
            _log.warning("Log directories failed", brokers=announced)
        # A broker that is not registered gets no request, and its replicas are not online.
        registered = [broker for broker in announced if broker in context.live_or_shutting_down_ids]
        await move_replicas(active, {b: context.partitions_on_broker(b) for b in registered}, ReplicaState.ONLINE)
    finally:
        await active.store.delete_znodes(found)


async def isr_change_notification(active: ActiveController) -> None:
    """Leaders wrote ISRs into the state nodes: take them over and tell everybody (IS-2 to IS-4)."""
    found = await active.store.read_children(ISR_CHANGE_NOTIFICATION)
    try:
        listed = decode_each(found.keys(), found.values(), decode_partitions)
        partitions = sorted({tp for partitions in listed.values() for tp in partitions})
        if partitions:
            await _take_over(active, partitions)
    finally:
        await active.store.delete_znodes(found)


async def leader_and_isr_answered(active: ActiveController, broker: BrokerId, response: LeaderAndIsrResponse) -> None:
    """Learn from the answer which replicas are on failed disks, and treat the new ones as gone (BK-51, BK-52).

    Refusals never make a controller step down: only ZooKeeper tells it that it was replaced (FN-9).
    """
    context = active.context
    if response.error_code is not ErrorCode.NONE:
        _log.warning("LeaderAndIsr was refused", broker=broker, error=response.error_code.name)
        return
    codes = Counter(e.error_code.name for e in response.partition_errors if e.error_code is not ErrorCode.NONE)
    if codes:
        _log.warning("LeaderAndIsr was refused for partitions", broker=broker, errors=dict(codes))
    if broker not in context.live_or_shutting_down_ids:
        # Its end was noticed first, and its replicas are offline already.
        return
    news = classify_directories(
        context, context.offline_directories.get(broker, frozenset()), response.partition_errors
    )
    active.commit(OfflineReplicasReported(broker, news.offline))
    if news.lost:
        _log.warning("Replicas are on failed log directories", broker=broker, partitions=len(news.lost))
        await replicas_went_offline(active, {broker: news.lost})


async def _take_over(active: ActiveController, partitions: list[TopicPartition]) -> None:
    context = active.context
    # A partition that is not assigned, as one whose topic node is malformed, would outlive its topic in memory.
    states = await active.store.read_states([tp for tp in partitions if context.assignment(tp).replicas])
    changed = {tp: leadership for tp, leadership in states.items() if leadership != context.leaderships.get(tp)}
    active.commit(LeadershipsWritten(changed, "written by the leader"))
    batch = active.new_batch()
    batch.add_update_metadata_for_all(partitions)
    active.send(batch)
    await complete_reassignments(active, partitions)
