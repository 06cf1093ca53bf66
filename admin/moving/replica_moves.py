"""Proposes moves of the replicas of existing topics, and compares them with the cluster.

Source: Kafka ReassignPartitionsCommand.
"""

from collections.abc import Iterable, Sequence
from random import Random
from typing import NamedTuple

from admin.moving.log_dir_moves import UnfinishedMove
from cluster.model.broker import Broker, BrokerId
from cluster.model.errors import ApiError, ErrorCode
from cluster.model.partition import TopicPartition
from cluster.model.printable import counted
from cluster.model.replica_placement import place_replicas
from cluster.requests.cluster import DescribedBroker
from cluster.requests.reassignments import DescribedReassignment
from cluster.requests.topics import DescribedTopic

Assignment = dict[TopicPartition, tuple[BrokerId, ...]]


class ProposedMoves(NamedTuple):
    current: Assignment
    proposed: Assignment


class Arrival(NamedTuple):
    """Holds the state of one move: `completed`, `in progress`, `stuck`, `different` or `unknown`; `detail` says why."""

    topic_partition: TopicPartition
    wanted: tuple[BrokerId, ...]
    state: str
    detail: str


def propose_moves(
    topics: Sequence[DescribedTopic], brokers: Sequence[DescribedBroker], random: Random, *, rack_aware: bool = True
) -> ProposedMoves:
    """Spread these topics over these brokers as if they were created now (TP-5).

    A partition that is being reassigned counts as if it were at its target already. Partitions that keep their replicas
    are left out. Raises ApiError if the brokers are too few or only some of them name a rack.
    """
    places = [Broker(b.id, (b.endpoint,), rack=b.rack if rack_aware else None) for b in brokers]
    current: Assignment = {}
    proposed: Assignment = {}
    for topic in topics:
        if not topic.partitions:
            continue
        targets = {
            TopicPartition(topic.name, partition.partition): tuple(
                b for b in partition.replicas if b not in partition.removing_replicas
            )
            for partition in topic.partitions
        }
        current |= targets
        factor = len(targets[TopicPartition(topic.name, topic.partitions[0].partition)])
        if factor > len(places):
            raise ApiError(ErrorCode.INVALID_REPLICATION_FACTOR, _too_few(topic.name, factor, len(places)))
        placed = place_replicas(
            places,
            len(targets),
            factor,
            start=random.randrange(len(places)),
            shift=random.randrange(len(places)),
        )
        # A topic that somebody wrote by hand need not have the partitions 0 to n-1.
        proposed |= dict(zip(sorted(targets), placed.values(), strict=True))
    moved = {tp: replicas for tp, replicas in proposed.items() if current.get(tp) != replicas}
    return ProposedMoves({tp: current[tp] for tp in moved}, moved)


def _too_few(topic: str, factor: int, brokers: int) -> str:
    return (
        f"--broker-list names {counted(brokers, 'broker')}, but partitions of topic {topic} have "
        f"{counted(factor, 'replica')}: name at least {factor}"
    )


def with_directories(arrivals: Sequence[Arrival], unfinished: Sequence[UnfinishedMove]) -> list[Arrival]:
    """The same with what is still to be moved between the log directories of a broker; the rest has to be completed."""
    left: dict[TopicPartition, list[str]] = {}
    for move in unfinished:
        where = f"is in {move.present}" if move.present else "has no replica"
        doing = f"{where}, being copied to" if move.is_copied else f"{where}, not in"
        left.setdefault(move.topic_partition, []).append(f"broker {move.broker} {doing} {move.log_dir}")
    copied = {move.topic_partition for move in unfinished if move.is_copied}
    return [
        arrival._replace(
            state="in progress" if arrival.topic_partition in copied else "different",
            detail="; ".join(left[arrival.topic_partition]),
        )
        if arrival.state == "completed" and arrival.topic_partition in left
        else arrival
        for arrival in arrivals
    ]


def compare(wanted: Assignment, present: Assignment, going_on: Iterable[DescribedReassignment]) -> list[Arrival]:
    """Compare the requested replicas with the current targets, in the order of partitions."""
    under_way = {(r.topic, r.partition): r for r in going_on}
    arrivals = []
    for tp, replicas in sorted(wanted.items()):
        state, detail = "completed", ""
        if (ongoing := under_way.get(tp)) is not None:
            state, detail = ("stuck" if ongoing.stuck_reason else "in progress"), ongoing.stuck_reason
        elif tp not in present:
            state, detail = "unknown", "no such partition"
        elif present[tp] != replicas:
            state, detail = "different", f"is on {','.join(map(str, present[tp]))} and not being reassigned"
        arrivals.append(Arrival(tp, replicas, state, detail))
    return arrivals
