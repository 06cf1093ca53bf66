"""Controller failover: load the cluster state, send it to every broker, resume what the last controller left undone.

The order matters for safety. Watches are armed before the reads they cover. Everything is read before anything is
written. Notifications are listed before the state they announce is read, and those are deleted. Before they hear
anything else, brokers delete what they have left of topics that were deleted while they were away. They get
UpdateMetadata with the live brokers before LeaderAndIsr names leaders to fetch from. Offline replicas are removed from
ISRs before leaders of leaderless partitions are elected, or, with `klamm.failover.elect.first`, afterwards, and then
leaders are elected before anything is sent (docs/decisions/0024).
Source: Kafka KafkaController.onControllerFailover.
"""

import asyncio
from collections.abc import Mapping
from typing import Final

import structlog

from cluster.model.broker import RegisteredBroker
from cluster.model.partition import LeaderAndIsr, TopicAssignment, TopicPartition
from cluster.znodes.paths import ISR_CHANGE_NOTIFICATION, LOG_DIR_EVENT_NOTIFICATION
from controller.active_controller import ActiveController, OutrankedError
from controller.changes import BrokersJoined, ControllerActivated, LeadershipsRead, TopicsListed
from controller.decisions.controller_epochs import outranking
from controller.handlers.brokers.broker_changes import admissible_brokers, check_fitness
from controller.handlers.configs.features import set_up_features
from controller.handlers.partitions.elections import replica_leader_election
from controller.handlers.partitions.partition_transitions import elect_before_sending, start_partition_machine
from controller.handlers.partitions.replica_transitions import start_replica_machine
from controller.handlers.reassignment.requests import resume_reassignments
from controller.handlers.topics.changes import record_assignments
from controller.handlers.topics.controller_replicas import list_controllers, only_brokers, replace_controllers
from controller.handlers.topics.deletions import initialise_deletions, try_deletions
from controller.handlers.topics.left_replicas import (
    delete_left_replicas,
    keep_undeleted_replicas,
    take_over_left_replicas,
)
from controller.handlers.topics.topic_ids import record_ids
from controller.ports import PartitionReads
from controller.warm_standby import WarmStandby

FIRST_BALANCE_S: Final = 5
"""Delay of the first preferred leader check after a failover, so that brokers can rejoin ISRs first (EP-20)."""
_log = structlog.stdlib.get_logger()


async def activate(active: ActiveController, standby: WarmStandby) -> None:
    """Run the failover sequence. On any error this candidate cannot be active and must step down (EL-7).

    What the candidate followed as a standby is taken over, instead of being read.

    Nothing is written or sent before the cluster is read. Raises UnfitError if this candidate must not govern it,
    OutrankedError if its epoch was used before.
    """
    clock = asyncio.get_running_loop()
    timings = active.timings
    await _load(active, standby)
    await take_over_left_replicas(active)
    await initialise_deletions(active)
    await keep_undeleted_replicas(active)
    timings.end_phase("Load", clock.time())
    if active.config.settings.klamm_failover_elect_first:
        await elect_before_sending(active)
    delete_left_replicas(active, active.context.brokers.registered_ids)
    # A broker that has just started does not know the addresses of the leaders from which LeaderAndIsr has it fetch.
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
    if active.config.settings.auto_leader_rebalance_enable:
        active.balance_later(FIRST_BALANCE_S)
    timings.sent(clock.time())
    context = active.context
    _log.info(
        "Controller failover completed",
        controller_epoch=context.epoch,
        brokers=sorted(context.brokers.live_ids),
        topics=len(context.topics.names),
        partitions=len(context.leaderships.known),
        offline_partitions=context.leaderships.offline_partition_count,
        **timings.as_fields(),
    )


async def _load(active: ActiveController, standby: WarmStandby) -> None:
    """Load brokers and partitions into the context, and open the channels.

    What was read, some hundred bytes for each partition, is released before anything is sent.
    """
    registered = await _load_brokers(active)
    # Listed before the states are read: one that comes in between announces a state that may have been read too early,
    # and is left to its watch; listed afterwards, it would be deleted unread.
    notifications = [
        *await active.store.list_paths(LOG_DIR_EVENT_NOTIFICATION),
        *await active.store.list_paths(ISR_CHANGE_NOTIFICATION),
    ]
    topics, states = await _load_partitions(active, standby)
    _check_epoch(active, states)
    await set_up_features(active)
    # What they announce was read after they were listed; those that came later are events.
    await active.store.delete_znodes(notifications)
    topics = await replace_controllers(active, topics)
    record_assignments(active, topics, states)
    active.commit(LeadershipsRead(states))
    await record_ids(active, topics)
    for candidate in registered:
        active.channels.add(candidate.broker)
    active.commit(
        ControllerActivated(
            active.config.id, active.config.governs_kafka, active.timings.vacant_ms(asyncio.get_running_loop().time())
        )
    )


async def _load_brokers(active: ActiveController) -> list[RegisteredBroker]:
    """Load the brokers that can join (LC-1 to LC-3), unless this candidate must not govern them (D-91)."""
    await list_controllers(active)
    listed = only_brokers(active, await active.store.read_brokers())
    admitted = await admissible_brokers(active, listed)
    await check_fitness(active, listed)
    active.commit(BrokersJoined(tuple(admitted), recorded=False))
    return admitted


async def _load_partitions(
    active: ActiveController, standby: WarmStandby
) -> tuple[dict[str, TopicAssignment], dict[TopicPartition, LeaderAndIsr]]:
    """Take over what the candidate has followed, and read the rest; it follows no more."""
    reads = standby.reads(active.store)
    loaded = await _read_partitions(active, reads)
    await standby.loaded(active.epoch, reads)
    return loaded


async def _read_partitions(
    active: ActiveController, reads: PartitionReads
) -> tuple[dict[str, TopicAssignment], dict[TopicPartition, LeaderAndIsr]]:
    """Read the topics and the states of their partitions (LC-4 to LC-9)."""
    names = await active.store.list_topics()
    active.commit(TopicsListed(names))
    topics = await reads.read_topics(sorted(names))
    partitions = [TopicPartition(topic, p) for topic, assignment in topics.items() for p in assignment.partitions]
    return topics, await reads.read_states(partitions)


def _check_epoch(active: ActiveController, states: Mapping[TopicPartition, LeaderAndIsr]) -> None:
    """Raise OutrankedError if a state has this epoch or a higher one.

    Nothing was written under this epoch yet, so another controller wrote that state, as before ZooKeeper was restored
    from a backup; brokers that know its epoch would refuse this controller.
    """
    higher = outranking(active.epoch, (leadership.controller_epoch for leadership in states.values()))
    if higher is not None:
        raise OutrankedError(higher)
