"""What can change in the controller's image of the cluster: a closed union, and the only way into the context.

Each value says what ZooKeeper acknowledged or a read of it showed; where that is one step over many partitions it is
one value. `ActiveController.commit` applies it and derives from the same value what the state-change log and those who
watch are told (see `controller.state_change_records`), so that none of the three can say what the others do not.
Source: the records of KRaft's QuorumController and its `replay`.
"""

from collections.abc import Mapping

from msgspec import Struct

from cluster.broker import BrokerEpoch, BrokerId, ControllerId, RegisteredBroker, TopicId
from cluster.partition import LeaderAndIsr, ReplicaAssignment, TopicPartition
from cluster.state_machines import PartitionState, ReplicaState

Assignments = Mapping[TopicPartition, ReplicaAssignment]
Leaderships = Mapping[TopicPartition, LeaderAndIsr]


# Brokers


class BrokersJoined(Struct, frozen=True):
    """Brokers take part from now on, with no known failed disk. Recorded as `live`, unless `recorded` is off: found by
    a failover, or said by another change.
    """

    registered: tuple[RegisteredBroker, ...]
    recorded: bool = True


class BrokersBounced(Struct, frozen=True):
    """Known brokers registered anew: the earlier incarnations are gone. `registered`: the new ones; they join later."""

    registered: tuple[RegisteredBroker, ...]


class BrokersDied(Struct, frozen=True):
    """Registrations are gone."""

    brokers: tuple[BrokerId, ...]


class BrokerModified(Struct, frozen=True):
    """A known broker changed its endpoints or features under the same epoch."""

    registered: RegisteredBroker


class BrokerShuttingDown(Struct, frozen=True):
    """A broker asked for its controlled shutdown, naming this epoch."""

    broker: BrokerId
    broker_epoch: BrokerEpoch


class OfflineReplicasReported(Struct, frozen=True):
    """All partitions whose replica on the broker is on a failed disk, by its last answer. Not recorded."""

    broker: BrokerId
    partitions: frozenset[TopicPartition]


BrokersChange = (
    BrokersJoined | BrokersBounced | BrokersDied | BrokerModified | BrokerShuttingDown | OfflineReplicasReported
)


# Topics and assignments


class TopicsListed(Struct, frozen=True):
    """There are nodes of these topics, readable or not. Not recorded: see `TopicsCreated`."""

    topics: tuple[str, ...]


class TopicIdRead(Struct, frozen=True):
    """The topic's node has this id. Not recorded. Contradictions are found before (CX-9)."""

    topic: str
    topic_id: TopicId


class AssignmentsRead(Struct, frozen=True):
    """What topic nodes say of partitions that were not known, moves under way included. Not recorded."""

    assignments: Assignments


class TopicsCreated(Struct, frozen=True):
    """Topics that came after the failover are known with all their partitions."""

    topics: tuple[str, ...]


class TopicsRemoved(Struct, frozen=True):
    """The nodes of topics are gone: deleted by this controller (`deleted`), or by somebody else."""

    topics: tuple[str, ...]
    deleted: bool


class ReassignmentsWritten(Struct, frozen=True):
    """Topic nodes carry these assignments: moves begun, replaced or cancelled."""

    assignments: Assignments


class ReassignmentsStarted(Struct, frozen=True):
    """The partitions are on their way until `ReassignmentsCompleted` says otherwise. Not recorded."""

    partitions: tuple[TopicPartition, ...]


class ReassignmentsCompleted(Struct, frozen=True):
    """Topic nodes carry the target lists and nothing else."""

    assignments: Assignments


TopicsChange = (
    TopicsListed
    | TopicIdRead
    | AssignmentsRead
    | TopicsCreated
    | TopicsRemoved
    | ReassignmentsWritten
    | ReassignmentsStarted
    | ReassignmentsCompleted
)


# Leadership and states


class LeadershipsRead(Struct, frozen=True):
    """State nodes as they were found. Not recorded."""

    leaderships: Leaderships


class LeadersElected(Struct, frozen=True):
    """State nodes were created or carry the outcome of elections: the partitions are online."""

    leaderships: Leaderships
    reason: str


class LeadershipsWritten(Struct, frozen=True):
    """Leadership without a move between states. `broker`: whose replica it is about. `removing`: replicas that are out
    of the assignment while their place in the ISR and their data are not gone yet.
    """

    leaderships: Leaderships
    reason: str
    broker: BrokerId | None = None
    removing: Mapping[TopicPartition, tuple[BrokerId, ...]] = {}


class PartitionsMoved(Struct, frozen=True):
    """A move of the partition state machine that ZooKeeper has no trace of. Recorded where the state is another one."""

    partitions: tuple[TopicPartition, ...]
    target: PartitionState


class PartitionStatesDerived(Struct, frozen=True):
    """Where partitions stand at a failover. Not recorded: the records of the start say it."""

    states: Mapping[TopicPartition, PartitionState]


class ReplicasMoved(Struct, frozen=True):
    """A move of the replica state machine. `partitions`: with the state that each replica leaves. Recorded where it is
    another one, unless `recorded` is off: where records of the partitions say it all.
    """

    broker: BrokerId
    partitions: Mapping[TopicPartition, ReplicaState]
    target: ReplicaState
    recorded: bool = True


class ReplicaStatesDerived(Struct, frozen=True):
    """Where the replicas of a broker stand, derived from what is known of the broker. Not recorded."""

    broker: BrokerId
    partitions: tuple[TopicPartition, ...]
    state: ReplicaState


StatesChange = (
    LeadershipsRead
    | LeadersElected
    | LeadershipsWritten
    | PartitionsMoved
    | PartitionStatesDerived
    | ReplicasMoved
    | ReplicaStatesDerived
)


# Deletion of topics


class DeletionsQueued(Struct, frozen=True):
    """Topics are marked for deletion: `queued`, or `postponed` until their partitions have come to where they move."""

    queued: tuple[str, ...]
    postponed: tuple[str, ...] = ()
    recorded: bool = True


class DeletionsWithdrawn(Struct, frozen=True):
    """The markers of postponed topics are gone again. Not recorded."""

    topics: tuple[str, ...]


class DeletionsIneligible(Struct, frozen=True):
    """Deletions that cannot go on now; topics that are not queued are not concerned (TD-2). Not recorded."""

    topics: frozenset[str]


class DeletionsEligible(Struct, frozen=True):
    """What kept these marked topics from being deleted is over; postponed ones are queued. Not recorded."""

    topics: tuple[str, ...]


class DeletionsStarted(Struct, frozen=True):
    """From here on their partitions do not count as offline, whatever becomes of them (CX-20)."""

    topics: tuple[str, ...]


DeletionsChange = DeletionsQueued | DeletionsWithdrawn | DeletionsIneligible | DeletionsEligible | DeletionsStarted


# The controller itself, which its own context says nothing of


class ControllerActivated(Struct, frozen=True):
    """A controller became active and has read the cluster."""

    controller: ControllerId


class ControllerResigned(Struct, frozen=True):
    """It is active no more."""

    controller: ControllerId


ControllerRoleChange = ControllerActivated | ControllerResigned

Change = BrokersChange | TopicsChange | StatesChange | DeletionsChange | ControllerRoleChange
