"""Controller failover: load the cluster state, send it to every broker, resume what the last controller left undone.

The order matters for safety. Watches are armed before the reads they cover. Notifications are deleted before the state
they announce is read. Brokers get UpdateMetadata with the live brokers before LeaderAndIsr names leaders to fetch from.
Offline replicas are removed from ISRs before leaders of leaderless partitions are elected.
Source: Kafka KafkaController.onControllerFailover.
"""

import asyncio
from typing import Final

import structlog

from cluster.partition import TopicPartition
from cluster.znodes.paths import ISR_CHANGE_NOTIFICATION, LOG_DIR_EVENT_NOTIFICATION
from controller.active_controller import ActiveController
from controller.changes import BrokersJoined, ControllerActivated, LeadershipsRead, TopicsListed
from controller.handlers.brokers.broker_changes import admissible_brokers
from controller.handlers.configs.features import set_up_features
from controller.handlers.partitions.elections import replica_leader_election
from controller.handlers.partitions.partition_transitions import start_partition_machine
from controller.handlers.partitions.replica_transitions import start_replica_machine
from controller.handlers.reassignment.requests import resume_reassignments
from controller.handlers.topics.changes import record_topics
from controller.handlers.topics.controller_replicas import list_controllers, only_brokers, replace_controllers
from controller.handlers.topics.deletions import initialise_deletions, try_deletions

FIRST_BALANCE_S: Final = 5
"""Delay of the first preferred leader check after a failover, so that brokers can rejoin ISRs first (EP-20)."""
_log = structlog.stdlib.get_logger()


async def activate(active: ActiveController) -> None:
    """Run the failover sequence. On any error this candidate cannot be active and must step down (EL-7)."""
    clock = asyncio.get_running_loop()
    timings = active.timings
    await set_up_features(active)
    await active.store.delete_children(LOG_DIR_EVENT_NOTIFICATION)
    await active.store.delete_children(ISR_CHANGE_NOTIFICATION)
    await _load(active)
    active.commit(ControllerActivated(active.config.id))
    await initialise_deletions(active)
    timings.end_phase("Load", clock.time())
    introduction = active.new_batch()
    introduction.add_update_metadata_for_all()
    active.send(introduction)
    await start_replica_machine(active)
    timings.end_phase("ReplicaMachine", clock.time())
    await start_partition_machine(active)
    timings.end_phase("PartitionMachine", clock.time())
    await resume_reassignments(active)
    await try_deletions(active)
    await replica_leader_election(active)
    if active.config.auto_leader_rebalance_enable:
        active.balance_later(FIRST_BALANCE_S)
    timings.sent(clock.time())
    context = active.context
    _log.info(
        "Controller failover completed",
        controller_epoch=context.epoch,
        brokers=sorted(context.live_broker_ids),
        topics=len(context.topics),
        partitions=len(context.leaderships),
        offline_partitions=context.offline_partition_count,
        **timings.as_fields(),
    )


async def _load(active: ActiveController) -> None:
    """Load brokers, topics and partition states into the context, and open the channels (LC-1 to LC-9)."""
    context, store = active.context, active.store
    await list_controllers(active)
    registered = await admissible_brokers(active, only_brokers(active, await store.read_brokers()))
    active.commit(BrokersJoined(tuple(registered), recorded=False))
    active.commit(TopicsListed(await store.list_topics()))
    await record_topics(active, await replace_controllers(active, await store.read_topics(sorted(context.topics))))
    partitions = [TopicPartition(topic, p) for topic, of_topic in context.assignments.items() for p in of_topic]
    active.commit(LeadershipsRead(await store.read_states(partitions)))
    for candidate in registered:
        active.channels.add(candidate.broker)
