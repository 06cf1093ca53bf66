"""Validates CreatePartitions and places the replicas of added partitions (TP-2).

Source: Kafka ZkAdminManager.createPartitions, AdminZkClient.addPartitions.
"""

from collections.abc import Collection, Sequence
from collections.abc import Set as AbstractSet

from cluster.model.broker import Broker, BrokerId
from cluster.model.errors import ApiError, ErrorCode, all_refusals
from cluster.model.partition import ReplicaAssignment, TopicAssignment
from cluster.model.printable import counted
from cluster.model.replica_placement import place_replicas
from cluster.requests.topics import NewPartitions
from controller.decisions.topics.creation import bad_assignment


def plan_expansion(
    wanted: NewPartitions,
    topic: TopicAssignment,
    brokers: Collection[Broker],
    shutting_down: AbstractSet[BrokerId] = frozenset(),
) -> dict[int, ReplicaAssignment]:
    """The added partitions of a topic whose znode holds `topic`. Raises ApiError that names what is invalid.

    Registered `brokers` that are shutting down get a replica only if they are named explicitly.
    """
    moving = [p for p in sorted(topic.partitions) if topic.partitions[p].is_being_reassigned]
    if moving:
        raise ApiError(ErrorCode.REASSIGNMENT_IN_PROGRESS, f"partitions {moving} are being reassigned")
    present = len(topic.partitions)
    if wanted.count <= present:
        raise ApiError(
            ErrorCode.INVALID_PARTITIONS,
            f"the topic has {counted(present, 'partition')}; the new number must be above that",
            field="count",
            value=wanted.count,
        )
    if 0 not in topic.partitions or max(topic.partitions) != present - 1:
        raise ApiError(ErrorCode.INVALID_PARTITIONS, "the topic's partitions are not numbered from 0 without gaps")
    first = topic.partitions[0].replicas
    if wanted.assignments is None:
        staying = [broker for broker in brokers if broker.id not in shutting_down]
        return _place(wanted.count - present, present, first, staying)
    replicas = [assignment.broker_ids for assignment in wanted.assignments]
    _check(replicas, wanted.count - present, len(first), {broker.id for broker in brokers})
    return {present + i: ReplicaAssignment(brokers) for i, brokers in enumerate(replicas)}


def _place(
    count: int, present: int, first: Sequence[BrokerId], live_brokers: Collection[Broker]
) -> dict[int, ReplicaAssignment]:
    """Continue the placement as if it had started with the replicas of partition 0 (TP-5)."""
    ids = sorted(broker.id for broker in live_brokers)
    # A first replica above all live broker ids counts as the lowest one, as in Kafka.
    start = next((i for i, broker in enumerate(ids) if first and broker >= first[0]), 0)
    placed = place_replicas(live_brokers, count, len(first), start=start, shift=start, first_partition=present)
    return {partition: ReplicaAssignment(brokers) for partition, brokers in placed.items()}


def _check(assignments: Sequence[tuple[BrokerId, ...]], count: int, factor: int, known: Collection[BrokerId]) -> None:
    """Raise ApiError that names everything that is wrong with the assignments of `count` new partitions."""
    if len(assignments) != count:
        raise bad_assignment(
            f"{counted(count, 'partition')} added, but {counted(len(assignments), 'assignment')} given",
            [len(assignments)],
        )
    unknown = sorted({broker for brokers in assignments for broker in brokers}.difference(known))
    errors = [bad_assignment("some brokers are not registered", unknown)] if unknown else []
    for brokers in assignments:
        if len(set(brokers)) != len(brokers):
            errors.append(bad_assignment("an assignment names a broker twice", brokers))
        if len(brokers) != factor:
            errors.append(
                bad_assignment(f"an assignment has not as many replicas as partition 0, which has {factor}", brokers)
            )
    if errors:
        raise all_refusals(errors)
