"""New homes for the replicas of existing topics: a proposal to be read, changed and executed.

Source: Kafka ReassignPartitionsCommand.generateAssignment.
"""

from collections.abc import Sequence
from random import Random
from typing import NamedTuple

from cluster.broker import Broker, BrokerId
from cluster.partition import TopicPartition
from cluster.replica_placement import place_replicas
from cluster.requests import DescribedBroker, DescribedTopic

Assignment = dict[TopicPartition, tuple[BrokerId, ...]]


class Proposal(NamedTuple):
    current: Assignment
    proposed: Assignment


def propose_moves(
    topics: Sequence[DescribedTopic], brokers: Sequence[DescribedBroker], random: Random, *, rack_aware: bool = True
) -> Proposal:
    """Spread these topics over these brokers as if they were created now (TP-5).

    The target of a partition that is being reassigned counts as where it is. Partitions that keep their
    replicas are left out. Raises ApiError when the brokers are too few or only some of them name a rack.
    """
    places = [Broker(b.id, (b.endpoint,), rack=b.rack if rack_aware else None) for b in brokers]
    current: Assignment = {}
    proposed: Assignment = {}
    for topic in topics:
        for partition in topic.partitions:
            target = tuple(b for b in partition.replicas if b not in partition.removing_replicas)
            current[TopicPartition(topic.name, partition.partition)] = target
        factor = len(current[TopicPartition(topic.name, topic.partitions[0].partition)])
        placed = place_replicas(
            places,
            len(topic.partitions),
            factor,
            start=random.randrange(len(places)) if places else 0,
            shift=random.randrange(len(places)) if places else 0,
        )
        proposed |= {TopicPartition(topic.name, number): replicas for number, replicas in placed.items()}
    moved = {tp: replicas for tp, replicas in proposed.items() if current.get(tp) != replicas}
    return Proposal({tp: current[tp] for tp in moved}, moved)
