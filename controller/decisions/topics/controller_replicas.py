"""Replaces controllers in the replica lists of topics that Apache Kafka's brokers created.

A broker that creates a topic by itself, such as `__consumer_offsets`, places replicas over all live brokers of its
metadata cache, and the active controller is among them: clients find it there.
"""

from collections import Counter
from collections.abc import Collection, Mapping
from collections.abc import Set as AbstractSet

from msgspec.structs import replace

from cluster.model.broker import Broker, BrokerId
from cluster.model.partition import ReplicaAssignment, TopicAssignment


def names_controller(topic: TopicAssignment, controllers: AbstractSet[BrokerId]) -> bool:
    return any(not controllers.isdisjoint(assignment.replicas) for assignment in topic.partitions.values())


def without_controllers(
    topic: TopicAssignment,
    controllers: AbstractSet[BrokerId],
    live_brokers: Collection[Broker],
    led: Collection[int] = (),
) -> TopicAssignment:
    """The topic with each controller replaced by a live broker, or removed where there is none left for it.

    Partitions that are `led` already, or being reassigned, stay as they are: replicas may hold their records. So do
    those that would have no replica. The broker with the fewest replicas of the topic is taken, of another rack than
    those of the partition if there is one.
    """
    load = Counter(
        broker
        for assignment in topic.partitions.values()
        for broker in assignment.replicas
        if broker not in controllers
    )
    racks = {broker.id: broker.rack for broker in live_brokers if broker.id not in controllers}
    partitions = dict(topic.partitions)
    for number in sorted(partitions.keys() - set(led)):
        assignment = partitions[number]
        if controllers.isdisjoint(assignment.replicas) or assignment.is_being_reassigned:
            continue
        replicas = _replaced(assignment.replicas, controllers, racks, load)
        if replicas:
            partitions[number] = ReplicaAssignment(replicas)
    return replace(topic, partitions=partitions)


def _replaced(
    replicas: tuple[BrokerId, ...],
    controllers: AbstractSet[BrokerId],
    racks: Mapping[BrokerId, str | None],
    load: Counter[BrokerId],
) -> tuple[BrokerId, ...]:
    found: list[BrokerId] = []
    taken = set(replicas)
    for replica in replicas:
        if replica not in controllers:
            found.append(replica)
            continue
        used = {racks.get(broker) for broker in taken - controllers}
        free = sorted(
            racks.keys() - taken,
            key=lambda broker: (racks[broker] is not None and racks[broker] in used, load[broker], broker),
        )
        if free:
            found.append(free[0])
            taken.add(free[0])
            load[free[0]] += 1
    return tuple(found)
