"""The changes that can be applied to the controller context: a closed union of values.

Each value holds what ZooKeeper acknowledged or what was read from it; one step over many partitions is one value.
`ActiveController.commit` applies a change and derives the state-change records and watch events from the same value
(`controller.state_change_records`, which also names the kinds without a record), so the three cannot disagree. Source:
the records of KRaft's QuorumController and its `replay`.
"""

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from cluster.model.broker import BrokerEpoch, BrokerId, ControllerId, RegisteredBroker, TopicId
from cluster.model.partition import LeaderAndIsr, ReplicaAssignment, TopicPartition
from cluster.model.state_machines import PartitionState, ReplicaState
from cluster.requests.agents import ReportedDamage
from cluster.security.acls import AccessRule, Pattern
from cluster.znodes.left_replicas import LeftReplicas
from controller.decisions.brokers.known_damage import AwaitedReport

Assignments = Mapping[TopicPartition, ReplicaAssignment]
Leaderships = Mapping[TopicPartition, LeaderAndIsr]


# Brokers


class BrokersJoined(Struct, frozen=True):
    """New brokers joined the cluster, with no known offline log directory. Recorded as `live`, unless `recorded` is
    False: found by a failover, or already recorded by another change.
    """

    registered: tuple[RegisteredBroker, ...]
    recorded: bool = True


class BrokersBounced(Struct, frozen=True):
    """Known brokers registered again, so their earlier incarnations are gone. `registered`: the new incarnations, which
    join with a later `BrokersJoined`.
    """

    registered: tuple[RegisteredBroker, ...]


class BrokersDied(Struct, frozen=True):
    """The registrations of these brokers were deleted."""

    brokers: tuple[BrokerId, ...]


class BrokerModified(Struct, frozen=True):
    """A known broker changed its endpoints or features under the same epoch."""

    registered: RegisteredBroker


class BrokersNotAdmitted(Struct, frozen=True):
    """The registered brokers that cannot join, each with why, in words that follow its name, and those that have not
    joined because they have not named their damaged replicas yet.
    """

    reasons: Mapping[BrokerId, str]
    awaited: Mapping[BrokerId, AwaitedReport] = {}


class ControllersListed(Struct, frozen=True):
    """The ids of candidates that are `registered`, and of those that once wrote a state-change log."""

    registered: frozenset[BrokerId]
    former: frozenset[BrokerId] = frozenset()


class BrokerShuttingDown(Struct, frozen=True):
    """A broker with this epoch requested a controlled shutdown, at `since_ms` of the wall clock."""

    broker: BrokerId
    broker_epoch: BrokerEpoch
    since_ms: int = 0


class OfflineReplicasReported(Struct, frozen=True):
    """The partitions whose replica on the broker is in an offline log directory, from its last response; replaces the
    earlier set.
    """

    broker: BrokerId
    partitions: frozenset[TopicPartition]


class DamagedReplicasReported(Struct, frozen=True):
    """The broker has named its damaged replicas, so that it may join. `held`: those of them that are not to be elected,
    until another replica leads or `DamagedReplicasReleased`; adds to the earlier ones of the same broker epoch.
    `until_ms`: when those that are new are elected, of the wall clock.
    """

    broker: BrokerId
    broker_epoch: BrokerEpoch
    held: Mapping[TopicPartition, ReportedDamage]
    until_ms: int = 0


class DamagedReplicasReplaced(Struct, frozen=True):
    """These replicas of the broker left their ISRs, and are to be fetched again."""

    broker: BrokerId
    partitions: tuple[TopicPartition, ...]


class DamagedReplicasHealed(Struct, frozen=True):
    """These replicas of the broker were replaced and are in sync again."""

    broker: BrokerId
    partitions: tuple[TopicPartition, ...]


class DamagedReplicasReleased(Struct, frozen=True):
    """These replicas of the broker may be elected, damaged or not."""

    broker: BrokerId
    partitions: tuple[TopicPartition, ...]


# Topics and assignments


class TopicsListed(Struct, frozen=True):
    """The children of `/brokers/topics`, readable or not. Recorded by `TopicsCreated`."""

    topics: tuple[str, ...]


class TopicIdRead(Struct, frozen=True):
    """The topic id read from the topic's znode. Conflicting ids are detected before (CX-9)."""

    topic: str
    topic_id: TopicId


class AssignmentsRead(Struct, frozen=True):
    """Assignments of new partitions read from topic znodes, including ongoing reassignments."""

    assignments: Assignments


class TopicsCreated(Struct, frozen=True):
    """Topics created after the failover are known with all their partitions."""

    topics: tuple[str, ...]


class TopicsRemoved(Struct, frozen=True):
    """The znodes of topics were deleted: by this controller (`deleted`), or by somebody else."""

    topics: tuple[str, ...]
    deleted: bool


class ReassignmentsWritten(Struct, frozen=True):
    """Topic znodes were written with these assignments: reassignments started, replaced or cancelled."""

    assignments: Assignments


class ReassignmentsStarted(Struct, frozen=True):
    """Partitions are being reassigned, until `ReassignmentsCompleted`."""

    partitions: tuple[TopicPartition, ...]


class ReassignmentsCompleted(Struct, frozen=True):
    """Topic znodes were written with the target replicas only."""

    assignments: Assignments


# Leadership and states


class LeadershipsRead(Struct, frozen=True):
    """Partition state znodes as read."""

    leaderships: Leaderships


class LeadersElected(Struct, frozen=True):
    """Partition state znodes were created or written with the result of elections: the partitions are online.

    `unclean`: of those that are unclean, who allowed that (`state_log.record.UNCLEAN_BY_REQUEST`).
    """

    leaderships: Leaderships
    reason: str
    unclean: Mapping[TopicPartition, str] = {}


class LeadershipsWritten(Struct, frozen=True):
    """Leadership and ISR were written without a state transition. `broker`: the broker whose replica is concerned.
    `removing`: replicas that are no longer assigned while they are still in the ISR or still have data.
    """

    leaderships: Leaderships
    reason: str
    broker: BrokerId | None = None
    removing: Mapping[TopicPartition, tuple[BrokerId, ...]] = {}


class PartitionsMoved(Struct, frozen=True):
    """A transition without a write to ZooKeeper. Recorded only for partitions whose state changes, unless `recorded` is
    False: derived at a failover, where the records of the loaded state cover them.
    """

    targets: Mapping[TopicPartition, PartitionState]
    recorded: bool = True


class ReplicasMoved(Struct, frozen=True):
    """A transition of the replica state machine. `partitions`: partition -> state before. Recorded only for replicas
    whose state changes, unless `recorded` is False because the records of the partitions cover them, or because the
    state was derived from whether the broker is live.
    """

    broker: BrokerId
    partitions: Mapping[TopicPartition, ReplicaState]
    target: ReplicaState
    recorded: bool = True


# Deletion of topics


class DeletionsQueued(Struct, frozen=True):
    """Topics are marked for deletion, which ends their reassignments (D-1)."""

    queued: tuple[str, ...]
    recorded: bool = True


class DeletionsIneligible(Struct, frozen=True):
    """Topics that cannot be deleted at present; topics that are not queued are ignored (TD-2)."""

    topics: frozenset[str]


class DeletionsEligible(Struct, frozen=True):
    """Queued topics whose deletion is no longer blocked."""

    topics: tuple[str, ...]


class DeletionsStarted(Struct, frozen=True):
    """Deletion of these topics started: from now on their partitions do not count as offline (CX-20)."""

    topics: tuple[str, ...]


# Brokers that are away while topics are deleted


class BrokersGivenUp(Struct, frozen=True):
    """Topic deletions no longer wait for these brokers, until they register again (D-98)."""

    brokers: tuple[BrokerId, ...]


class LeftReplicasRecorded(Struct, frozen=True):
    """It is recorded in ZooKeeper what brokers still have of topics that are deleted without them: broker -> topic ->
    replicas.
    """

    left: Mapping[BrokerId, Mapping[str, LeftReplicas]]


class LeftReplicasDeleted(Struct, frozen=True):
    """The broker has no replicas of the earlier topics of these names any more, and the records are deleted."""

    broker: BrokerId
    topics: tuple[str, ...]


# The controller itself; these do not change the context


class ControllerActivated(Struct, frozen=True):
    """The controller became active and loaded the cluster state. `governs_kafka`: the brokers are Kafka's.
    `vacant_ms`: for how long it had seen that no controller was active; None: another one was.
    """

    controller: ControllerId
    governs_kafka: bool = False
    vacant_ms: int | None = None


class ControllerResigned(Struct, frozen=True):
    """The controller resigned."""

    controller: ControllerId


# Configs, which are not part of the context


class MinInsyncReplicasAltered(Struct, frozen=True):
    """The `min.insync.replicas` in force for these topics was changed by a request (D-53)."""

    values: Mapping[str, int]


class AccessRulesChanged(Struct, frozen=True):
    """The access control list of one resource pattern was written by a request: the rules that it gained and lost."""

    pattern: Pattern
    added: frozenset[AccessRule]
    removed: frozenset[AccessRule]


# Which parts of the context take which kinds: the `apply` of each part has a case for each kind of its union.

Registrations = BrokersJoined | BrokersBounced | BrokersDied
AssignmentsSet = AssignmentsRead | ReassignmentsWritten | ReassignmentsCompleted
LeadershipsSet = LeadershipsRead | LeadersElected | LeadershipsWritten
DamageNamed = DamagedReplicasReported | DamagedReplicasReleased | DamagedReplicasReplaced | DamagedReplicasHealed
DeletionStages = DeletionsQueued | DeletionsIneligible | DeletionsEligible | DeletionsStarted
LeftBehind = BrokersGivenUp | LeftReplicasRecorded | LeftReplicasDeleted

LeadershipsChange = (
    LeadershipsSet | PartitionsMoved | AssignmentsSet | DeletionsQueued | DeletionsStarted | TopicsRemoved
)
ReplicasChange = ReplicasMoved | AssignmentsSet | DeletionsQueued | TopicsRemoved
DamageChange = DamageNamed | BrokersNotAdmitted | Registrations | LeadershipsSet | ReplicasMoved | TopicsRemoved
BrokersChange = (
    Registrations
    | BrokerModified
    | BrokersNotAdmitted
    | ControllersListed
    | BrokerShuttingDown
    | OfflineReplicasReported
    | ReplicasMoved
    | TopicsRemoved
)
TopicsChange = TopicsListed | TopicIdRead | AssignmentsSet | ReassignmentsStarted | DeletionsQueued | TopicsRemoved
DeletionsChange = DeletionStages | LeftBehind | BrokersJoined | TopicsRemoved
RecordedOnly = TopicsCreated | ControllerActivated | ControllerResigned | MinInsyncReplicasAltered | AccessRulesChanged
"""Those that do not change the context."""

Change = (
    LeadershipsChange | ReplicasChange | DamageChange | BrokersChange | TopicsChange | DeletionsChange | RecordedOnly
)

_OF_PARTITIONS: Final[Mapping[type, str]] = {
    LeadersElected: "leaderships",
    LeadershipsWritten: "leaderships",
    PartitionsMoved: "targets",
    ReplicasMoved: "partitions",
    ReassignmentsWritten: "assignments",
    ReassignmentsCompleted: "assignments",
}
"""Kinds whose partitions are changed and recorded each for itself -> the field that has them."""


def in_parts(change: Change, size: int) -> Iterator[Change]:
    """Yield a change as several of the same kind, with at most `size` partitions each; most are one."""
    field = _OF_PARTITIONS.get(type(change))
    partitions = {} if field is None else getattr(change, field)
    # At a failover all replicas are moved, and leave no records of which there could be too many.
    leaves_none = isinstance(change, ReplicasMoved) and (not change.recorded or change.target is ReplicaState.ONLINE)
    if field is None or len(partitions) <= size or leaves_none:
        yield change
        return
    items = iter(partitions.items())
    while some := dict(islice(items, size)):
        yield replace(change, **{field: some})
