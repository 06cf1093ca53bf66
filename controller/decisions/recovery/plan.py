"""Decides what to write to a ZooKeeper that was restored from a backup, from what the brokers know.

Per partition the replica with the greatest (epoch, end of log) leads: it has every record that was acknowledged while
the last known ISR, or the part of it that is present, was in sync. Nothing is lowered and nothing is deleted: epochs
rise above all that was seen, topics that only brokers know are created with their ids, topics of which no broker has a
replica stay. Running it again after it was interrupted plans what is left.
"""

from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from cluster.model.broker import (
    NO_LEADER_EPOCH,
    BrokerId,
    ControllerEpoch,
    LeaderEpoch,
    Offset,
    PartitionEpoch,
    TopicId,
)
from cluster.model.partition import EMPTY_ASSIGNMENT, LeaderAndIsr, ReplicaAssignment, TopicAssignment, TopicPartition
from cluster.requests.recovery import KnownLeadership
from cluster.znodes.paths import PRODUCER_ID_BLOCK, broker_path
from controller.decisions.recovery.evidence import (
    Answers,
    FoundReplica,
    PartitionEvidence,
    TopicEvidence,
    collect,
    merged,
)
from controller.decisions.recovery.limits import (
    credible_epoch,
    credible_producer_id,
    incredible_epochs,
    incredible_producer_ids,
    unwritable,
)


class RestoredCluster(Struct, frozen=True):
    """Holds what the restored ZooKeeper says. `controller_epoch`: of the active controller. `last_producer_id`: the
    end of the last block, -1 none.
    """

    topics: Mapping[str, TopicAssignment]
    leaderships: Mapping[TopicPartition, LeaderAndIsr]
    controller_epoch: ControllerEpoch
    last_producer_id: int = -1
    malformed_producer_ids: str = ""
    """Why the znode of the producer id block cannot be read."""
    malformed: frozenset[str] = frozenset()
    """Topics whose znodes cannot be read."""
    leaving: frozenset[str] = frozenset()
    """Topics marked for deletion."""
    silent: tuple[BrokerId, ...] = ()
    """Registered brokers that did not answer."""
    unreadable: frozenset[BrokerId] = frozenset()
    """Those of them that could not be asked, as their registrations are malformed."""


class PartitionRecovery(Struct, frozen=True):
    """One partition to be written. `before`: None if it has no state."""

    topic_partition: TopicPartition
    before: LeaderAndIsr | None
    after: LeaderAndIsr
    old_assignment: ReplicaAssignment
    assignment: ReplicaAssignment
    last_isr: tuple[BrokerId, ...]
    absent: tuple[BrokerId, ...]
    log_end_offset: Offset


class TopicRecovery(Struct, frozen=True):
    """A topic to be written: its znode if `before` and `after` differ, and the states of `partitions`.

    `before`: None if it is created. `withdraws_deletion`: a marker in ZooKeeper asks for the deletion of an earlier
    topic of this name.
    """

    topic: str
    before: TopicAssignment | None
    after: TopicAssignment
    partitions: tuple[PartitionRecovery, ...]
    withdraws_deletion: bool = False


class RecoveryPlan(Struct, frozen=True):
    """`controller_epoch` and `last_producer_id` are the values to be written at least; see `ClusterRecovery`.

    `obstacles`: those of the `refusals` that no accepted loss overrides.
    """

    topics: tuple[TopicRecovery, ...]
    only_on_brokers: tuple[str, ...]
    only_in_zookeeper: tuple[str, ...]
    refusals: tuple[str, ...]
    controller_epoch: ControllerEpoch
    last_producer_id: int
    obstacles: tuple[str, ...] = ()


def plan_recovery(restored: RestoredCluster, answers: Answers, *, accept_loss: bool) -> RecoveryPlan:
    """Plan the recovery of every topic known to ZooKeeper or to a broker.

    With `accept_loss`, absent replicas do not count, and what cannot be decided is left as it is; obstacles remain.
    """
    unreadable = [
        f"the znode {broker_path(b)} is malformed, so what broker {b} has is not known: restart it"
        for b in sorted(restored.unreadable)
    ]
    unanswered = [b for b in restored.silent if b not in restored.unreadable]
    # The next controller would admit none of them, and step down.
    is_nobody_left = not (answers or unanswered)
    draft = _Draft(
        refusals=[
            *(f"broker {b} is registered, but does not answer: what it has is not known" for b in unanswered),
            *(() if is_nobody_left else unreadable),
            *incredible_producer_ids(answers),
        ],
        obstacles=[
            *_malformed_producer_ids(restored),
            *(unreadable if is_nobody_left else ()),
            *incredible_epochs(restored.controller_epoch, answers),
        ],
    )
    evidence = collect(answers)
    for name in sorted({*restored.topics, *restored.malformed, *evidence}):
        _plan_name(draft, name, evidence.get(name, {}), restored, answers)
    return RecoveryPlan(
        tuple(draft.topics),
        tuple(draft.only_on_brokers),
        tuple(draft.only_in_zookeeper),
        (*draft.obstacles, *(() if accept_loss else draft.refusals)),
        credible_epoch(restored.controller_epoch, answers),
        credible_producer_id(restored.last_producer_id, answers),
        tuple(draft.obstacles),
    )


class _Draft(Struct):
    """The plan while it is made; see `RecoveryPlan`. `refusals`: those that an accepted loss overrides."""

    refusals: list[str]
    obstacles: list[str]
    topics: list[TopicRecovery] = []
    only_on_brokers: list[str] = []
    only_in_zookeeper: list[str] = []


def _plan_name(
    draft: _Draft,
    name: str,
    of_name: Mapping[TopicId | None, TopicEvidence],
    restored: RestoredCluster,
    answers: Answers,
) -> None:
    """Decide which topic is to have this name, and what to write of it; nothing of what stays as it is."""
    if name in restored.malformed:
        draft.refusals.append(f"the znode of topic {name} is malformed: repair or delete it first")
        return
    known = restored.topics.get(name)
    chosen, conflict = _choose_topic(known, of_name)
    if chosen is None:
        draft.refusals.append(f"topic {name}: {conflict}")
    elif chosen.has_replicas:
        _plan_found(draft, name, chosen, restored, answers)
    elif known is not None:
        draft.only_in_zookeeper.append(name)
        draft.refusals += _losses(name, known, chosen, restored.leaderships, answers)


def _plan_found(draft: _Draft, name: str, chosen: TopicEvidence, restored: RestoredCluster, answers: Answers) -> None:
    """Plan a topic of which brokers have replicas."""
    known = restored.topics.get(name)
    is_listed = _is_same(known, chosen.topic_id)
    if is_listed and name in restored.leaving:
        # Its deletion continues: it is the topic that somebody asked to delete.
        return
    planned = _plan_topic(name, known, chosen, restored)
    if unwritten := list(_unwritable(planned, answers)):
        draft.obstacles += unwritten
        return
    draft.refusals += _absences(planned)
    draft.refusals += _losses(name, known, chosen, restored.leaderships, answers)
    if not planned.after.partitions:
        # All replicas that were found are on brokers which are not assigned to it any more.
        return
    if not is_listed:
        draft.only_on_brokers.append(name)
    if planned.partitions or planned.before != planned.after:
        draft.topics.append(planned)


def _malformed_producer_ids(restored: RestoredCluster) -> Iterator[str]:
    if restored.malformed_producer_ids:
        yield (
            f"the znode {PRODUCER_ID_BLOCK} is malformed ({restored.malformed_producer_ids}): set it to empty data; the"
            " recovery then raises it above the ids that brokers have seen"
        )


def _unwritable(planned: TopicRecovery, answers: Answers) -> Iterator[str]:
    for partition in planned.partitions:
        why = unwritable(partition.topic_partition, partition.before, partition.after, answers)
        if why is not None:
            yield why


def _choose_topic(
    known: TopicAssignment | None, of_name: Mapping[TopicId | None, TopicEvidence]
) -> tuple[TopicEvidence | None, str]:
    """The topic of this name that is to be, and why that cannot be decided; None: leave everything as it is.

    If brokers have logs of another id than ZooKeeper, that topic was created after the backup, or before it and deleted
    since. The records decide; where two have records, an operator has to.
    """
    present = None if known is None or known.topic_id is None else TopicId(known.topic_id)
    ids = sorted(i for i, topic in of_name.items() if i is not None and topic.has_replicas)
    candidates = [i for i in ids if of_name[i].has_records] or ([present] if present in ids else ids)
    if len(candidates) > 1:
        return None, (
            f"brokers have logs of several topics of this name, with the ids {', '.join(map(str, candidates))}: "
            "move those of all but one out of the log directories"
        )
    chosen = candidates[0] if candidates else present
    # A log that was not flushed yet may have no id.
    parts = [topic for i, topic in of_name.items() if i in (None, chosen) or chosen is None]
    return merged(parts, chosen), ""


def _is_same(known: TopicAssignment | None, topic_id: TopicId | None) -> bool:
    """Whether the topic with this id is the one in ZooKeeper, not an earlier or later one of its name."""
    return known is not None and known.topic_id in (None, topic_id)


def _listed(known: TopicAssignment | None, topic_id: TopicId | None) -> Mapping[int, ReplicaAssignment]:
    """The partitions of the topic with this id that are in ZooKeeper."""
    return known.partitions if known is not None and _is_same(known, topic_id) else {}


def _plan_topic(
    name: str, known: TopicAssignment | None, evidence: TopicEvidence, restored: RestoredCluster
) -> TopicRecovery:
    listed = _listed(known, evidence.topic_id)
    assignments = dict(listed)
    partitions: list[PartitionRecovery] = []
    for number, found in sorted(evidence.partitions.items()):
        old = listed.get(number, EMPTY_ASSIGNMENT)
        assignment = found.assignment(old)
        if not found.candidates(assignment):
            # There is no record to recover: it stays as it is, and is not created.
            continue
        assignments[number] = assignment
        planned = _plan_partition(TopicPartition(name, number), restored, found, old, assignment)
        if planned is not None:
            partitions.append(planned)
    after = TopicAssignment(assignments, evidence.topic_id)
    return TopicRecovery(name, known, after, tuple(partitions), name in restored.leaving)


def _plan_partition(
    tp: TopicPartition,
    restored: RestoredCluster,
    found: PartitionEvidence,
    old: ReplicaAssignment,
    assignment: ReplicaAssignment,
) -> PartitionRecovery | None:
    """The state to be written, None if ZooKeeper is up to date."""
    last_isr = found.newest.isr if found.newest is not None and found.newest.isr else ()
    candidates = found.candidates(assignment)
    best = _best(candidates, last_isr, found)
    present = {c.broker for c in candidates}
    isr = tuple(b for b in last_isr if b in present)
    if best.broker not in isr:
        isr = (*isr, best.broker)
    before = restored.leaderships.get(tp)
    if before is not None and old == assignment and _is_up_to_date(before, found, best.broker, isr):
        return None
    known_version = -1 if before is None else before.partition_epoch
    after = LeaderAndIsr(
        best.broker,
        LeaderEpoch(max(found.leader_epoch, NO_LEADER_EPOCH if before is None else before.leader_epoch) + 1),
        isr,
        restored.controller_epoch,
        PartitionEpoch(max(found.partition_epoch, known_version) + 1),
    )
    required = last_isr or assignment.replicas
    absent = tuple(b for b in required if b not in present)
    return PartitionRecovery(tp, before, after, old, assignment, required, absent, best.log_end_offset)


def _best(candidates: Sequence[FoundReplica], last_isr: Sequence[BrokerId], found: PartitionEvidence) -> FoundReplica:
    """The replica with the greatest (epoch, end); of equal ones the last leader, then a member of the last ISR."""
    leader = None if found.newest is None else found.newest.leader
    return max(candidates, key=lambda c: (c.position, c.broker == leader, c.broker in last_isr))


def _is_up_to_date(before: LeaderAndIsr, found: PartitionEvidence, best: BrokerId, isr: Sequence[BrokerId]) -> bool:
    """Whether ZooKeeper has what the brokers know, or what an earlier run of the recovery wrote."""
    if before.leader_epoch < found.leader_epoch or before.partition_epoch < found.partition_epoch:
        return False
    newest = found.newest
    if newest is None:
        return before.leader_epoch > found.leader_epoch
    if _epochs(before) == _epochs(newest):
        return set(before.isr) == set(newest.isr) and before.leader == newest.leader
    is_above = before.leader_epoch > found.leader_epoch and before.partition_epoch > found.partition_epoch
    return is_above and before.leader == best and set(before.isr) == set(isr)


def _absences(planned: TopicRecovery) -> Iterator[str]:
    """Partitions to be written of whose last known ISR a replica is absent."""
    for partition in planned.partitions:
        if partition.absent:
            yield _absence(partition.topic_partition, partition.absent)


def _losses(
    name: str,
    known: TopicAssignment | None,
    evidence: TopicEvidence,
    leaderships: Mapping[TopicPartition, LeaderAndIsr],
    answers: Answers,
) -> Iterator[str]:
    """Partitions of which no assigned broker that answered has a replica, but one that did not answer may have one.

    If all of them answered, the replicas were deleted; if ZooKeeper is as new as what is known, nothing changes.
    """
    listed = _listed(known, evidence.topic_id)
    for number in sorted({*listed, *evidence.partitions}):
        found, old = evidence.partitions.get(number, PartitionEvidence({})), listed.get(number, EMPTY_ASSIGNMENT)
        if found.candidates(found.assignment(old)):
            continue
        newest, before = found.newest, leaderships.get(TopicPartition(name, number)) if number in listed else None
        if newest is not None and before is not None and _epochs(newest) <= _epochs(before):
            continue
        required = () if newest is None else newest.isr or newest.replicas
        absent = tuple(b for b in required or old.replicas if b not in answers)
        if absent:
            yield _absence(TopicPartition(name, number), absent)


def _epochs(state: KnownLeadership | LeaderAndIsr) -> tuple[int, int]:
    return state.leader_epoch, state.partition_epoch


def _absence(tp: TopicPartition, brokers: Sequence[BrokerId]) -> str:
    return f"{tp}: replicas of its last known ISR are absent, on brokers {', '.join(map(str, brokers))}"
