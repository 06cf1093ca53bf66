"""Counts from scratch what the gauges of controllers and agents show, which are kept up to date by each change."""

from collections import Counter
from typing import Final

from broker_agent.agent import Agent
from broker_agent.log.partition_log import PartitionLog
from cluster.metrics.registry import Metrics
from cluster.model.state_machines import ReplicaState
from controller.context.controller_context import ControllerContext
from controller.controller import Controller
from simulator.recount import recount
from simulator.violations import violated

Gauges = dict[str, float]

_CONTROLLER: Final = ("kafka.controller", "KafkaController")
_REPLICA_MANAGER: Final = ("kafka.server", "ReplicaManager")
_PURGATORY: Final = ("kafka.server", "DelayedOperationPurgatory")


def recount_controller(context: ControllerContext) -> Gauges:
    """The gauges of an active controller, by their names in Kafka."""
    offline, imbalanced = recount(context)
    marked = {topic for topic in context.topics.names if topic in context.deletions.queued}
    states = Counter(
        context.replicas.state(broker, tp)
        for topic in marked
        for tp in context.topics.partitions_of(topic)
        for broker in context.topics.assignment(tp).replicas
    )
    return {
        "OfflinePartitionsCount": offline,
        "PreferredReplicaImbalanceCount": imbalanced,
        "GlobalTopicCount": len(context.topics.names),
        "GlobalPartitionCount": sum(
            tp in context.leaderships.known for t in context.topics.names for tp in context.topics.partitions_of(t)
        ),
        "TopicsToDeleteCount": len(marked),
        "ReplicasToDeleteCount": states.total() - states[ReplicaState.DELETION_SUCCESSFUL],
        "TopicsIneligibleToDeleteCount": len(context.deletions.ineligible),
        "ReplicasIneligibleToDeleteCount": states[ReplicaState.DELETION_INELIGIBLE],
        "ActiveBrokerCount": len(context.brokers.registered_ids),
    }


def recount_agent(agent: Agent) -> Gauges:
    """The gauges of an agent's ReplicaManager, by their names in Kafka; among them that of its logs."""
    manager = agent.manager
    online = list(manager.online_partitions())
    led = [partition for partition in online if partition.is_leader]
    logs = manager.logs.all_logs().values()
    return {
        "LeaderCount": len(led),
        "PartitionCount": len(online) + manager.offline_count,
        "OfflineReplicaCount": manager.offline_count,
        "UnderReplicatedPartitions": sum(len(p.assignment.original) > len(p.isr) for p in led),
        "UnderMinIsrPartitionCount": sum(len(p.isr) < p.min_isr for p in led),
        "AtMinIsrPartitionCount": sum(len(p.isr) == p.min_isr for p in led),
        "ReassigningPartitions": sum(p.assignment.is_being_reassigned for p in led),
        "ProducerIdCount": sum(len(log.producers) for log in logs if isinstance(log, PartitionLog)),
    }


def recount_waiting(agent: Agent) -> dict[str, Gauges]:
    """Count by kind the operations that wait in an agent's purgatories, and the partitions under which they wait."""
    manager = agent.manager
    purgatories = {
        "Produce": (manager.produce_purgatory,),
        "Fetch": (manager.follower_fetch_purgatory, manager.fetch_purgatory),
        "DeleteRecords": (manager.delete_records_purgatory,),
    }
    counted: dict[str, Gauges] = {}
    for kind, of_kind in purgatories.items():
        watching = [operation for p in of_kind for of_key in p._watchers.values() for operation in of_key]
        lasting = [watch for p in of_kind for of_key in p._lasting.values() for watch in of_key if watch.is_waiting]
        counted[kind] = {
            "PurgatorySize": len(watching) + len(lasting),
            "NumDelayedOperations": len({*watching, *(watch._operation for watch in lasting)}),
        }
    return counted


def shown(metrics: Metrics, bean: tuple[str, str], names: Gauges) -> Gauges:
    return {name: metrics.gauge(*bean, name).value for name in names}


def check_controller_gauges(controller: Controller) -> None:
    """Raise ViolationError if a gauge of the active controller differs from a recount. Call it between two events
    only.
    """
    active = controller._active
    assert active is not None, "it is the active controller"
    expected = recount_controller(active.context)
    found = shown(controller.metrics.registry, _CONTROLLER, expected)
    if found != expected:
        raise violated("EV-4", f"the controller shows {found} instead of {expected}")
    deletions, reassignments = active.context.deletions.queued_since, active.context.topics.reassigned_since
    if set(deletions) != active.context.deletions.queued:
        raise violated("D-70", f"deletions in progress are {list(deletions)}")
    if set(reassignments) != active.context.topics.being_reassigned:
        raise violated("D-70", f"reassignments in progress are {list(reassignments)}")


def check_agent_gauges(agent: Agent) -> None:
    """Raise ViolationError if a gauge of an agent differs from a recount. Do not call it within a role change."""
    expected = recount_agent(agent)
    found = shown(agent.manager.metrics.registry, _REPLICA_MANAGER, expected)
    if found != expected:
        raise violated("FD-7", f"agent {agent.broker_id} shows {found} instead of {expected}")
    metrics = agent.manager.metrics.registry
    for kind, waiting in recount_waiting(agent).items():
        found = {name: metrics.gauge(*_PURGATORY, name, delayedOperation=kind).value for name in waiting}
        if found != waiting:
            raise violated("FD-7", f"agent {agent.broker_id}, {kind}: shows {found} instead of {waiting}")
