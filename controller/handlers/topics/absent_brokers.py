"""Brokers that are away while topics are deleted: how long a deletion waits, and what is recorded when it does not.

Not of Kafka, whose deletions wait for ever (KAFKA-10548). D-98
"""

import asyncio

import structlog

from cluster.model.broker import BrokerId
from cluster.model.state_machines import ReplicaState
from controller import changes
from controller.active_controller import ActiveController
from controller.decisions.topics.deletion import plan_left_replicas
from controller.events import AbsentBrokersDue
from controller.handlers.partitions.replica_transitions import Replicas

_log = structlog.stdlib.get_logger()


def absences_end_at(active: ActiveController) -> dict[BrokerId, float]:
    """Compute when deletions cease to wait for each broker that is away, by the event loop's clock; empty if they never
    do.
    """
    context, grace_ms = active.context, active.config.settings.klamm_delete_topic_absent_broker_grace_ms
    if grace_ms < 0:
        return {}
    known = context.brokers.registered_ids | context.deletions.brokers_given_up
    absent = [broker for broker in context.topics.hosting_brokers() if broker not in known]
    return {broker: context.brokers.away_since(broker) + grace_ms / 1000 for broker in absent}


def give_up_absent(active: ActiveController) -> None:
    """Give up the brokers that have been away for the grace time."""
    now = asyncio.get_running_loop().time()
    due = sorted(broker for broker, end in absences_end_at(active).items() if end <= now)
    if due:
        active.commit(changes.BrokersGivenUp(tuple(due)))
        grace_ms = active.config.settings.klamm_delete_topic_absent_broker_grace_ms
        _log.warning("Topics are deleted without brokers that are away", brokers=due, grace_ms=grace_ms)


def check_absences_later(active: ActiveController) -> None:
    """While deletions are on hold, check again when the first broker that is away has been so for the grace time."""
    if not active.context.deletions.ineligible:
        return
    first = min(absences_end_at(active).values(), default=None)
    planned = active.absences_checked_at
    if first is not None and (planned is None or first < planned):
        active.absences_checked_at = first
        active.enqueue_later(first - asyncio.get_running_loop().time(), AbsentBrokersDue())


async def leave_replicas(active: ActiveController, left: Replicas) -> bool:
    """Record replicas on brokers that are given up, which then count as deleted; returns whether any do now.

    Nothing is sent, and no ISR is written: the brokers are not there, and the states of the partitions go.
    """
    context = active.context
    records = plan_left_replicas(context, left)
    if records:
        written = await active.left_replicas.record(records)
        active.commit(changes.LeftReplicasRecorded(written))
        _log.info(
            "Replicas of deleted topics left to brokers that are away", topics={b: len(t) for b, t in written.items()}
        )
    counted = False
    for broker, partitions in left.items():
        kept = [tp for tp in partitions if context.deletions.has_left_replicas(broker, tp.topic)]
        for state in (ReplicaState.OFFLINE, ReplicaState.DELETION_STARTED, ReplicaState.DELETION_SUCCESSFUL):
            before = {tp: context.replicas.state(broker, tp) for tp in kept}
            active.commit(changes.ReplicasMoved(broker, {tp: s for tp, s in before.items() if s is not state}, state))
        counted = counted or bool(kept)
    return counted
