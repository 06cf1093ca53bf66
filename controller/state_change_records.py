"""Derives the state-change records of a change from the value that is applied to the context.

Called before the change is applied, so that the context still has the previous states.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, get_args

from cluster.model.broker import NO_LEADER, NO_LEADER_EPOCH, BrokerId, ControllerEpoch, PartitionEpoch, RegisteredBroker
from cluster.model.partition import LeaderAndIsr, ReplicaAssignment, TopicPartition
from cluster.model.state_machines import PartitionState
from cluster.requests.context import RequestContext
from cluster.security.acls import EVERY_NAME, PatternType, ResourceType
from controller import changes
from controller.context.controller_context import ControllerContext
from controller.decisions.cluster_events import REASSIGNMENT_COMPLETED, recorded_as
from state_log.record import (
    GOVERNS_KAFKA,
    GOVERNS_KLAMM,
    Cause,
    DecisionInputs,
    Kind,
    LoadedMove,
    LoadedPartition,
    StateChange,
)

_Caller = Callable[[str | None], RequestContext | None]
_Record = Callable[..., StateChange]
"""Makes a record from kind, topic, partition and further fields; adds what all records of one change share."""


def state_changes(
    change: changes.Change, context: ControllerContext, cause: Cause, caller: _Caller
) -> list[StateChange]:
    """The records of `change`, not yet applied to `context`; empty for changes that are not recorded.

    Records about a topic carry its id, which distinguishes it from an earlier topic of the same name. `caller`: who
    asked for the change of a topic (None: of the cluster); None if nobody did.
    """
    make = _RECORDS[type(change)]
    if make is NOT_RECORDED:
        return []

    ids, epoch = context.topics.ids, context.epoch

    def record(kind: Kind, topic: str | None = None, partition: int | None = None, **rest: Any) -> StateChange:
        call = caller(topic)
        if call is not None:
            rest.update(request_id=call.request_id or None, principal=call.principal or None, peer=call.peer or None)
        topic_id = None if topic is None else ids.get(topic)
        return StateChange(
            kind=kind, cause=cause, controller_epoch=epoch, topic=topic, topic_id=topic_id, partition=partition, **rest
        )

    return make(change, context, record)


def _brokers(registered: Iterable[RegisteredBroker], to_state: str, record: _Record) -> list[StateChange]:
    return [
        record(
            Kind.BROKER,
            broker=r.broker.id,
            broker_epoch=r.epoch,
            to_state=to_state,
            reason=f"broker epoch {r.epoch}",
        )
        for r in registered
    ]


def _shutting_down(change: changes.BrokerShuttingDown, _: ControllerContext, record: _Record) -> list[StateChange]:
    reason = f"broker epoch {change.broker_epoch}"
    epoch = change.broker_epoch
    return [record(Kind.BROKER, broker=change.broker, broker_epoch=epoch, to_state="shutting_down", reason=reason)]


def _topics(topics: Iterable[str], to_state: str, record: _Record, kind: Kind = Kind.TOPIC) -> list[StateChange]:
    return [record(kind, topic, to_state=to_state) for topic in topics]


def _removed(change: changes.TopicsRemoved, _: ControllerContext, record: _Record) -> list[StateChange]:
    if not change.deleted:
        return _topics(change.topics, "removed", record)
    return [*_topics(change.topics, "deleted", record), *_topics(change.topics, "completed", record, Kind.DELETION)]


def _queued(change: changes.DeletionsQueued, _: ControllerContext, record: _Record) -> list[StateChange]:
    return _topics(change.queued if change.recorded else (), "queued for deletion", record)


def _started(change: changes.DeletionsStarted, context: ControllerContext, record: _Record) -> list[StateChange]:
    # A deletion that was stopped, as by the death of a broker, is begun again.
    topics = [topic for topic in change.topics if topic not in context.deletions.started]
    return _topics(topics, "started", record, Kind.DELETION)


def _assignments(
    change: changes.ReassignmentsWritten | changes.ReassignmentsCompleted, context: ControllerContext, record: _Record
) -> list[StateChange]:
    completed = isinstance(change, changes.ReassignmentsCompleted)
    return [
        record(
            Kind.ASSIGNMENT,
            *tp,
            to_state=REASSIGNMENT_COMPLETED if completed else recorded_as(context, tp, assignment),
            replicas=assignment.replicas,
            adding_replicas=assignment.adding,
            removing_replicas=assignment.removing,
            reason=f"adding {list(assignment.adding)}, removing {list(assignment.removing)}",
        )
        for tp, assignment in change.assignments.items()
    ]


def _elected(change: changes.LeadersElected, context: ControllerContext, record: _Record) -> list[StateChange]:
    online, is_usual = PartitionState.ONLINE.value, _is_usual(context)
    return [
        record(
            Kind.PARTITION,
            *tp,
            from_state=context.leaderships.partition_state(tp).value,
            to_state=online,
            replicas=context.topics.assignment(tp).replicas,
            reason=change.reason,
            leader=leadership.leader,
            leader_epoch=leadership.leader_epoch,
            partition_epoch=leadership.partition_epoch,
            isr=leadership.isr,
            inputs=None if is_usual and not change.unclean else _inputs(context, tp, change.unclean.get(tp)),
        )
        for tp, leadership in change.leaderships.items()
    ]


def _written(change: changes.LeadershipsWritten, context: ControllerContext, record: _Record) -> list[StateChange]:
    is_usual = _is_usual(context)
    return [
        record(
            Kind.ISR,
            *tp,
            broker=change.broker,
            replicas=_with_removing(context.topics.assignment(tp).replicas, change.removing.get(tp)),
            reason=change.reason,
            leader=leadership.leader,
            leader_epoch=leadership.leader_epoch,
            partition_epoch=leadership.partition_epoch,
            isr=leadership.isr,
            inputs=None if is_usual else _inputs(context, tp),
        )
        for tp, leadership in change.leaderships.items()
    ]


def _inputs(context: ControllerContext, tp: TopicPartition, unclean: str | None = None) -> DecisionInputs | None:
    """The inputs of a decision about a partition that are unusual, and in no other record; None for none."""
    brokers, damage = context.brokers, context.damage
    known = context.leaderships.known.get(tp)
    replicas = dict.fromkeys((*context.topics.assignment(tp).replicas, *(() if known is None else known.isr)))
    there = brokers.online_for(tp, include_shutting_down=True)
    inputs = DecisionInputs(
        offline=tuple(b for b in replicas if b in brokers.registered_ids and b not in there),
        held=tuple(b for b in replicas if tp in damage.held_on(b)),
        awaited=tuple(b for b in replicas if b in damage.awaited_reports),
        unclean=unclean,
    )
    return None if inputs == _USUAL else inputs


def _is_usual(context: ControllerContext) -> bool:
    """Whether the inputs of decisions are in other records, of whatever partition."""
    brokers, damage = context.brokers, context.damage
    left = context.deletions.brokers_with_left_replicas
    return not (brokers.offline_directories or left or damage.reports or damage.awaited_reports)


_USUAL: Final = DecisionInputs()


def _with_removing(replicas: tuple[BrokerId, ...], removing: tuple[BrokerId, ...] | None) -> tuple[BrokerId, ...]:
    return replicas if removing is None else tuple(dict.fromkeys((*replicas, *removing)))


def _partitions_moved(
    change: changes.PartitionsMoved, context: ControllerContext, record: _Record
) -> list[StateChange]:
    assignment = context.topics.assignment
    return [
        record(Kind.PARTITION, *tp, from_state=before.value, to_state=target.value, replicas=assignment(tp).replicas)
        for tp, target in change.targets.items()
        if change.recorded and (before := context.leaderships.partition_state(tp)) is not target
    ]


def _replicas_moved(change: changes.ReplicasMoved, _: ControllerContext, record: _Record) -> list[StateChange]:
    return [
        record(Kind.REPLICA, *tp, broker=change.broker, from_state=before.value, to_state=change.target.value)
        for tp, before in (change.partitions.items() if change.recorded else ())
        if before is not change.target
    ]


def _access_rules(change: changes.AccessRulesChanged, _: ControllerContext, record: _Record) -> list[StateChange]:
    """A record for each rule; of a list about one topic it is also one of that topic."""
    pattern = change.pattern
    is_of_topic = pattern.resource_type is ResourceType.TOPIC and pattern.type is PatternType.LITERAL
    topic = pattern.name if is_of_topic and pattern.name != EVERY_NAME else None
    return [
        record(Kind.ACCESS_RULE, topic, to_state=to_state, resource=str(pattern), reason=str(rule))
        for to_state, rules in (("removed", change.removed), ("added", change.added))
        for rule in sorted(rules)
    ]


def _activated(change: changes.ControllerActivated, context: ControllerContext, record: _Record) -> list[StateChange]:
    """The active controller and, per topic, the state of each partition, as initial states for an audit."""
    topics, assignments = context.topics, sorted(context.topics.assignments.items())
    return [
        record(
            Kind.CONTROLLER,
            broker=change.controller,
            to_state="active",
            silent_ms=change.vacant_ms,
            inputs=DecisionInputs(
                live=tuple(sorted(context.brokers.live_ids)),
                governs=GOVERNS_KAFKA if change.governs_kafka else GOVERNS_KLAMM,
            ),
        ),
        *(
            record(
                Kind.LOADED,
                topic,
                partitions=tuple(
                    [_loaded(context, tp, partitions[tp.partition].replicas) for tp in topics.partitions_of(topic)]
                ),
                moves=_moves(partitions),
            )
            for topic, partitions in assignments
        ),
    ]


def _moves(partitions: Mapping[int, ReplicaAssignment]) -> tuple[LoadedMove, ...] | None:
    moves = [LoadedMove(p, a.adding, a.removing) for p, a in sorted(partitions.items()) if a.is_being_reassigned]
    return tuple(moves) or None


def _loaded(context: ControllerContext, tp: TopicPartition, replicas: tuple[BrokerId, ...]) -> LoadedPartition:
    known = context.leaderships.known.get(tp, _NEVER_LED)
    epochs = known.leader_epoch, known.partition_epoch
    return LoadedPartition(tp.partition, known.leader, *epochs, known.isr, replicas, known.controller_epoch)


_NEVER_LED: Final = LeaderAndIsr(NO_LEADER, NO_LEADER_EPOCH, (), ControllerEpoch(-1), PartitionEpoch(-1))


NOT_RECORDED: Final = None
"""For kinds that leave no record: what was only read from ZooKeeper, or what a later record tells."""
_RECORDS: Final[Mapping[type, Callable[[Any, ControllerContext, _Record], list[StateChange]] | None]] = {
    changes.BrokersJoined: lambda change, _, record: (
        _brokers(change.registered, "live", record) if change.recorded else []
    ),
    changes.BrokersBounced: lambda change, _, record: _brokers(change.registered, "bounced", record),
    changes.BrokersDied: lambda change, _, record: [
        record(Kind.BROKER, broker=broker, to_state="dead") for broker in change.brokers
    ],
    changes.BrokerModified: lambda change, _, record: _brokers([change.registered], "changed", record),
    changes.BrokerShuttingDown: _shutting_down,
    changes.TopicsCreated: lambda change, _, record: _topics(change.topics, "created", record),
    changes.TopicsRemoved: _removed,
    changes.DeletionsQueued: _queued,
    changes.DeletionsStarted: _started,
    changes.ReassignmentsWritten: _assignments,
    changes.ReassignmentsCompleted: _assignments,
    changes.LeadersElected: _elected,
    changes.LeadershipsWritten: _written,
    changes.PartitionsMoved: _partitions_moved,
    changes.ReplicasMoved: _replicas_moved,
    changes.ControllerActivated: _activated,
    changes.MinInsyncReplicasAltered: lambda change, _, record: [
        record(Kind.CONFIG, topic, min_insync_replicas=value) for topic, value in change.values.items()
    ],
    changes.AccessRulesChanged: _access_rules,
    changes.ControllerResigned: lambda change, _, record: [
        record(Kind.CONTROLLER, broker=change.controller, to_state="resigned")
    ],
    **dict.fromkeys(
        (
            *(changes.BrokersNotAdmitted, changes.ControllersListed, changes.OfflineReplicasReported),
            *(changes.DamagedReplicasReported, changes.DamagedReplicasReleased),
            *(changes.DamagedReplicasReplaced, changes.DamagedReplicasHealed),
            *(changes.TopicsListed, changes.TopicIdRead, changes.AssignmentsRead, changes.ReassignmentsStarted),
            *(changes.LeadershipsRead, changes.DeletionsIneligible, changes.DeletionsEligible),
            *(changes.BrokersGivenUp, changes.LeftReplicasRecorded, changes.LeftReplicasDeleted),
        ),
        NOT_RECORDED,
    ),
}
_UNDECIDED: Final = {kind.__name__ for kind in get_args(changes.Change)} ^ {kind.__name__ for kind in _RECORDS}
assert not _UNDECIDED, f"each kind of change has its records or NOT_RECORDED, and nothing else has: {_UNDECIDED}"
