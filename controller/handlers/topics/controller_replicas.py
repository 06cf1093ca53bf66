"""Which ids are controllers', and what is done about replicas that Apache Kafka's brokers placed on them."""

from collections import defaultdict
from collections.abc import Mapping, Sequence

import structlog

from cluster.model.broker import RegisteredBroker
from cluster.model.partition import TopicAssignment, TopicPartition
from controller.active_controller import ActiveController
from controller.changes import ControllersListed
from controller.decisions.topics.controller_replicas import names_controller, without_controllers
from controller.fenced_writes import Written

_log = structlog.stdlib.get_logger()


async def list_controllers(active: ActiveController) -> None:
    """Read which ids are controllers', and arm a watch on the list. Only Kafka's brokers take them for brokers."""
    if active.config.governs_kafka:
        active.commit(ControllersListed(*await active.store.list_controllers()))


def only_brokers(active: ActiveController, registered: Sequence[RegisteredBroker]) -> list[RegisteredBroker]:
    """The registrations without those of controllers, which register for brokers before Kafka 3.0 to find them."""
    return [r for r in registered if r.broker.id not in active.context.brokers.registered_controllers]


async def replace_controllers(
    active: ActiveController, topics: Mapping[str, TopicAssignment]
) -> dict[str, TopicAssignment]:
    """The topics as they are in ZooKeeper once no partition without a leader has a replica on a controller.

    Each write is fenced, and conditional on the version read. A topic that somebody else changed meanwhile is reported
    by its watch.
    """
    brokers = active.context.brokers
    controllers = brokers.controllers
    named = [topic for topic, assignment in topics.items() if names_controller(assignment, controllers)]
    if not named:
        return dict(topics)
    live = [broker for id_, broker in brokers.registered.items() if id_ in brokers.live_ids]
    current = await active.store.read_topics_to_change(named)
    states = await active.store.read_states(
        [TopicPartition(t, p) for t, (a, _) in current.items() for p in a.partitions]
    )
    led: dict[str, list[int]] = defaultdict(list)
    for partition in states:
        led[partition.topic].append(partition.partition)
    wanted = {
        topic: (
            without_controllers(found, controllers, live, led[topic]),
            version,
        )
        for topic, (found, version) in current.items()
    }
    wanted = {topic: (after, version) for topic, (after, version) in wanted.items() if after != current[topic][0]}
    outcomes = await active.store.change_topics(wanted)
    replaced = {topic: wanted[topic][0] for topic, outcome in outcomes.items() if isinstance(outcome, Written)}
    for topic in named:
        if topic in replaced:
            _log.info("Replaced controllers among the replicas of a topic that a broker created", topic=topic)
        else:
            _log.warning("A topic has replicas on controllers: reassign its partitions", topic=topic)
    return {**topics, **replaced}
