"""Handles brokers that start, fail, restart between two reads, or change their registration.

Source: Kafka KafkaController.processBrokerChange, onBrokerStartup, onBrokerFailure, onReplicasBecomeOffline.
"""

from collections.abc import Sequence

import structlog

from cluster.model.broker import BrokerId, RegisteredBroker
from cluster.model.errors import MalformedZnodeError
from cluster.model.partition import LeaderAndIsr, TopicPartition
from cluster.model.state_machines import PartitionState, ReplicaState
from controller.active_controller import ActiveController, UnfitError
from controller.changes import (
    BrokerModified,
    BrokersBounced,
    BrokersDied,
    BrokersJoined,
    BrokersNotAdmitted,
    DamagedReplicasReported,
)
from controller.decisions.brokers.admission import UNREADABLE, why_not_admitted, why_unfit
from controller.decisions.brokers.broker_changes import plan_broker_changes
from controller.decisions.brokers.known_damage import AwaitedReport
from controller.events import TopicIdsLost
from controller.fitness import read_adopted_brokers
from controller.handlers.partitions.partition_transitions import move_partitions, trigger_online_elections
from controller.handlers.partitions.replica_transitions import Replicas, move_replicas
from controller.handlers.reassignment.engine import resume_reassignments_on
from controller.handlers.topics.controller_replicas import list_controllers, only_brokers
from controller.handlers.topics.deletions import deletions_failed, resume_deletions_on
from controller.handlers.topics.left_replicas import delete_left_replicas

_log = structlog.stdlib.get_logger()


async def broker_change(active: ActiveController, report: DamagedReplicasReported | None = None) -> None:
    """Compare `/brokers/ids` with the known brokers: handle new, bounced and dead ones (BK-1 to BK-4).

    `report`: of a broker that has named its damaged replicas just now, if it is registered still.
    """
    known = active.context.brokers.epochs
    awaited = active.context.damage.awaited_reports.keys()
    await list_controllers(active)
    listed = only_brokers(active, await active.store.read_brokers())
    admitted = {r.broker.id for r in await admissible_brokers(active, listed, report)}
    # Admission applies to new incarnations only: a known broker stays, whatever listeners and features it has now.
    registered = {r.broker.id: r for r in listed if r.broker.id in admitted or known.get(r.broker.id) == r.epoch}
    for broker, epoch in active.store.unreadable_brokers.items():
        # It is still registered: a znode that somebody damaged must not take a running broker out of the cluster.
        if known.get(broker) == epoch:
            registered[broker] = RegisteredBroker(active.context.brokers.registered[broker], epoch)
    if known and not registered:
        await check_fitness(active, listed)
    changes = plan_broker_changes(registered, known)
    for broker in changes.new:
        active.channels.add(registered[broker].broker)
    for broker in changes.bounced:
        active.channels.remove(broker)
        active.channels.add(registered[broker].broker)
    for broker in changes.dead:
        active.channels.remove(broker)
    if changes.new:
        active.commit(BrokersJoined(tuple(registered[b] for b in changes.new)))
        await brokers_started(active, changes.new)
    if changes.bounced:
        bounced = tuple(registered[b] for b in changes.bounced)
        active.commit(BrokersBounced(bounced))
        await brokers_failed(active, changes.bounced)
        active.commit(BrokersJoined(bounced, recorded=False))
        await brokers_started(active, changes.bounced)
    if (changes.new or changes.bounced) and active.lost_topic_ids.topics:
        active.enqueue(TopicIdsLost())
    if changes.dead:
        active.commit(BrokersDied(changes.dead))
        await brokers_failed(active, changes.dead)
    if awaited - registered.keys() - active.context.damage.awaited_reports.keys():
        # Nobody waits any longer for what they would have named: an unclean election may be allowed now.
        await trigger_online_elections(active)


async def broker_modifications(active: ActiveController, broker: BrokerId) -> None:
    """Propagate changed endpoints or features; a change of the rack alone is ignored, as in Kafka (BK-40, D-12)."""
    context = active.context
    registered = await active.store.read_broker(broker)
    known = context.brokers.registered.get(broker)
    if registered is not None and known is None:
        # Its registration was malformed when it appeared; the list of `/brokers/ids` will not change again for it.
        await broker_change(active)
        return
    if registered is None or known is None:
        return
    changed = registered.broker
    if (changed.endpoints, changed.features) == (known.endpoints, known.features):
        return
    active.commit(BrokerModified(registered))
    _log.info("Broker registration changed", broker=broker)
    batch = active.new_batch()
    batch.add_update_metadata_for_all()
    active.send(batch)


async def admissible_brokers(
    active: ActiveController, registered: Sequence[RegisteredBroker], report: DamagedReplicasReported | None = None
) -> list[RegisteredBroker]:
    """The registrations that can join the cluster; the others are skipped with a warning.

    A broker that can join does so once it has named its damaged replicas, if it has any (D-40). `report` is committed
    only with the registration that it names, and so lives as long.
    """
    config = active.config
    levels = await _finalized_levels(active)
    controllers = await active.store.controller_addresses() if config.governs_kafka else frozenset[str]()
    admitted: list[RegisteredBroker] = []
    awaited: dict[BrokerId, AwaitedReport] = {}
    refused: dict[BrokerId, str] = {}
    known = active.context.damage.awaited_reports
    for candidate in registered:
        broker = candidate.broker
        why = why_not_admitted(
            broker,
            config.listeners,
            config.broker_protocol,
            levels,
            controllers,
            authenticates=config.authenticates_to_brokers,
        )
        if why is not None:
            refused[broker.id] = why
            _log.warning("Skipped a broker that cannot join", broker=broker.id, why=why)
        elif report is not None and (report.broker, report.broker_epoch) == (broker.id, candidate.epoch):
            active.commit(report)
            admitted.append(candidate)
        elif broker.has_damaged_replicas and not active.context.damage.has_reported(broker.id, candidate.epoch):
            new = AwaitedReport(candidate.epoch, active.clock.now_ms())
            before = known.get(broker.id, new)
            awaited[broker.id] = before if before.broker_epoch == candidate.epoch else new
            _log.warning("Waiting for a broker to name its damaged replicas", broker=broker.id, epoch=candidate.epoch)
        else:
            admitted.append(candidate)
    if refused or awaited or active.context.brokers.not_admitted or known:
        active.commit(BrokersNotAdmitted(refused, awaited))
    return admitted


async def check_fitness(active: ActiveController, listed: Sequence[RegisteredBroker]) -> None:
    """Raise UnfitError if this candidate must not govern the registered brokers, as it would not admit them."""
    # As with `only_brokers`.
    unreadable = active.store.unreadable_brokers.keys() - active.context.brokers.registered_controllers
    refused = dict.fromkeys(unreadable, UNREADABLE) | dict(active.context.brokers.not_admitted)
    # Where all can join it may govern them, whatever the adoption names.
    adopted = await read_adopted_brokers(active.reads) if refused else ()
    why = why_unfit([*unreadable, *(r.broker.id for r in listed)], refused, adopted)
    if why is not None:
        raise UnfitError(why)


async def _finalized_levels(active: ActiveController) -> dict[str, int]:
    if not active.config.protocol_version.has_features:
        return {}
    try:
        features = await active.unfenced.read_features()
    except MalformedZnodeError as error:
        _log.warning("Reading finalized features failed; assuming none", error=str(error))
        return {}
    return features.levels if features is not None and features.enabled else {}


async def brokers_started(active: ActiveController, brokers: Sequence[BrokerId]) -> None:
    """Handle brokers that started: send metadata, bring their replicas online, elect leaders (BK-10 to BK-16).

    First of all they delete what they have left of topics that were deleted while they were away (D-99).
    UpdateMetadata precedes LeaderAndIsr, because a follower must know its leader's address. LeaderAndIsr precedes the
    elections, so that a broker hosts the replicas that may be elected. No replica rejoins an ISR here: its leader
    proposes that once it has caught up.
    """
    delete_left_replicas(active, brokers)
    context = active.context
    others = context.brokers.registered_ids.difference(brokers)
    introduction = active.new_batch()
    introduction.add_update_metadata(others, ())
    active.send(introduction)
    full_image = active.new_batch()
    full_image.add_update_metadata(brokers, context.leaderships.partitions_with_leaders())
    active.send(full_image)
    await move_replicas(active, {b: context.topics.partitions_on(b) for b in brokers}, ReplicaState.ONLINE)
    await trigger_online_elections(active)
    await resume_reassignments_on(active, brokers)
    await resume_deletions_on(active, brokers)


async def brokers_failed(active: ActiveController, brokers: Sequence[BrokerId]) -> None:
    """Handle dead brokers: take all their replicas offline (BK-20, BK-21)."""
    await replicas_went_offline(active, {b: active.context.topics.partitions_on(b) for b in brokers})


async def replicas_came_back(active: ActiveController, broker: BrokerId, partitions: Sequence[TopicPartition]) -> None:
    """Continue what waited for replicas whose log directory is in service again, as when a broker starts (BK-10)."""
    context = active.context
    waiting = [tp for tp in partitions if context.replicas.state(broker, tp) is ReplicaState.OFFLINE]
    await move_replicas(active, {broker: waiting}, ReplicaState.ONLINE)
    batch = active.new_batch()
    batch.add_update_metadata_for_all(partitions)
    active.send(batch)
    await trigger_online_elections(active)
    await resume_reassignments_on(active, (broker,))
    await resume_deletions_on(active, (broker,))


async def replicas_went_offline(active: ActiveController, replicas: Replicas) -> None:
    """Elect new leaders first, because clients wait for them, then stop followers and shrink ISRs (BK-30 to BK-35)."""
    context = active.context
    # Replicas of topics being deleted are handled by topic deletion.
    concerned = {
        broker: [tp for tp in partitions if tp.topic not in context.deletions.queued]
        for broker, partitions in replicas.items()
    }
    await move_partitions(active, context.leaderships.partitions_with_offline_leader(), PartitionState.OFFLINE)
    elections = await trigger_online_elections(active)
    await move_replicas(active, concerned, ReplicaState.OFFLINE)
    await deletions_failed(active, replicas)
    somebody_won = any(isinstance(result, LeaderAndIsr) for result in elections.values())
    if not somebody_won and not any(concerned.values()):
        # No other request has told the brokers about the dead ones.
        batch = active.new_batch()
        batch.add_update_metadata_for_all()
        active.send(batch)
