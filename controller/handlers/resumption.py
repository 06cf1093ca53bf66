"""Retries procedures that stopped at a write refused by ZooKeeper, without a controller failover.

Kafka's controller does not retry these; there only the next controller finishes them.
"""

from typing import Final

import structlog

from cluster.model.state_machines import ReplicaState
from controller.active_controller import ActiveController
from controller.handlers.brokers.broker_changes import broker_change, replicas_went_offline
from controller.handlers.brokers.notifications import isr_change_notification, log_dir_event_notification
from controller.handlers.partitions.elections import replica_leader_election
from controller.handlers.partitions.partition_transitions import trigger_online_elections
from controller.handlers.reassignment.requests import resume_stopped_reassignments
from controller.handlers.topics.changes import topic_change
from controller.handlers.topics.deletions import topic_deletion
from controller.handlers.topics.left_replicas import delete_left_replicas
from controller.handlers.topics.topic_ids import record_missing_ids

_STARTED: Final = frozenset({ReplicaState.NEW, ReplicaState.ONLINE})
_log = structlog.stdlib.get_logger()


async def resume_procedures(active: ActiveController) -> None:
    """Compare all state with ZooKeeper again, as if every watch had fired, and resume stopped procedures.

    In the order of a failover. A write that is refused again schedules the next retry.
    """
    context = active.context
    _log.info("Retrying procedures stopped by refused writes")
    await broker_change(active)
    await topic_change(active)
    await record_missing_ids(active)
    dead = {
        broker: [
            tp
            for tp in context.topics.partitions_on(broker)
            if context.replicas.state(broker, tp) in _STARTED
            and broker not in context.brokers.online_for(tp, include_shutting_down=True)
        ]
        for broker in context.topics.hosting_brokers()
    }
    if any(dead.values()):
        await replicas_went_offline(active, dead)
    await trigger_online_elections(active)
    await resume_stopped_reassignments(active)
    delete_left_replicas(active, context.brokers.registered_ids)
    await topic_deletion(active)
    await replica_leader_election(active)
    await isr_change_notification(active)
    await log_dir_event_notification(active)
    active.resumed()
