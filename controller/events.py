"""Events of the controller's event loop, one frozen type each. Requests are in `controller.request_events`.

Source: Kafka ControllerEvent.
"""

from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from cluster.model.broker import BrokerEpoch, BrokerId, ControllerEpoch, TopicId
from cluster.model.errors import ErrorCode
from cluster.model.partition import TopicPartition
from cluster.requests.control import LeaderAndIsrResponse, UpdateMetadataResponse
from controller.controller_state import ControllerState
from controller.topic_id_questions import TopicIdAnswer


class Event(Struct, frozen=True):
    """Base of all events."""

    @property
    def name(self) -> str:
        """The name of the event as a cause in the state-change log."""
        return type(self).__name__

    @property
    def state(self) -> ControllerState:
        """The controller state while the event is processed, for metrics (EV-3)."""
        return STATES.get(type(self), ControllerState.IDLE)

    @property
    def changes_cluster(self) -> bool:
        """Whether its handler writes, so that an error of ZooKeeper may leave something half done."""
        return True


# Election and session, processed whether active or not


class Startup(Event, frozen=True):
    """The first ZooKeeper session was established."""


class ControllerChange(Event, frozen=True):
    """`/controller` was created or changed, or what decides who may hold it: its owner's registration, the adoption."""


class ControllerEpochChange(Event, frozen=True):
    """`/controller_epoch` was written or deleted, which only an election does if nobody interferes."""


class ControllerEpochRefused(Event, frozen=True):
    """A broker refused a request of `epoch` as an earlier controller's. `named`: the one it knows, else -1."""

    broker: BrokerId
    epoch: ControllerEpoch
    named: ControllerEpoch


class StandbyDiffered(Event, frozen=True):
    """What the controller of `epoch` took over from its time as a standby was not what ZooKeeper had at these paths."""

    epoch: ControllerEpoch
    paths: tuple[str, ...]


class Reelect(Event, frozen=True):
    """`/controller` was deleted."""


class RegisterAndReelect(Event, frozen=True):
    """A new session was established, or the registration of an earlier incarnation of this process was deleted."""


class Expire(Event, frozen=True):
    """The session expired. Preempts all queued events."""


class ShutdownEventLoop(Event, frozen=True):
    """The process is shutting down. Preempts all queued events."""


# Watches


class BrokerChange(Event, frozen=True):
    """The children of `/brokers/ids` changed."""


class BrokerModifications(Event, frozen=True):
    """The registration of this broker changed."""

    broker: BrokerId


class TopicChange(Event, frozen=True):
    """The children of `/brokers/topics` changed."""


class PartitionModifications(Event, frozen=True):
    """The znode of this topic changed."""

    topic: str


class PartitionStateChange(Event, frozen=True):
    """The state znode of this partition changed, which was malformed when last read."""

    topic_partition: TopicPartition


class TopicDeletion(Event, frozen=True):
    """The children of `/admin/delete_topics` changed."""


class ZkPartitionReassignment(Event, frozen=True):
    """`/admin/reassign_partitions` was created, changed or deleted, also by this controller."""


class PartitionReassignmentIsrChange(Event, frozen=True):
    """The state znode of a partition being reassigned changed; only used where leaders write ISRs to ZooKeeper."""

    topic_partition: TopicPartition


class ReplicaLeaderElection(Event, frozen=True):
    """`/admin/preferred_replica_election` was created, or this controller deleted it and must arm the watch again."""


class IsrChangeNotification(Event, frozen=True):
    """The children of `/isr_change_notification` changed."""


class LogDirEventNotification(Event, frozen=True):
    """The children of `/log_dir_event_notification` changed."""


# Timers and settings


class AutoPreferredReplicaLeaderElection(Event, frozen=True):
    """The periodic preferred leader check is due."""


class UncleanLeaderElectionEnable(Event, frozen=True):
    """The cluster-wide setting now allows unclean elections."""


class TopicUncleanLeaderElectionEnable(Event, frozen=True):
    """The setting of one topic now allows unclean elections."""

    topic: str


class ProcedureResumption(Event, frozen=True):
    """Procedures that stopped at a write refused by ZooKeeper are to be retried."""


class AbsentBrokersDue(Event, frozen=True):
    """A broker may have been away for as long as topic deletions wait for it (D-98)."""


class DamagedReplicaElection(Event, frozen=True):
    """These replicas, damaged and the only ones in sync, have waited long enough for another (D-41).

    `until_ms`: the end of the wait that is over, of the wall clock. Those that wait again by now have another one.
    """

    broker: BrokerId
    broker_epoch: BrokerEpoch
    partitions: tuple[TopicPartition, ...]
    until_ms: int


class TopicIdsLost(Event, frozen=True):
    """Brokers are to be asked which ids topics have whose znodes do not say so (D-102)."""


# Responses of brokers


class LeaderAndIsrResponseReceived(Event, frozen=True):
    broker: BrokerId
    response: LeaderAndIsrResponse


class UpdateMetadataResponseReceived(Event, frozen=True):
    broker: BrokerId
    response: UpdateMetadataResponse


class TopicIdsAnswered(Event, frozen=True):
    """Holds what the brokers that answered said of topic ids. `new_ids`: topic -> its id if no broker has one."""

    controller_epoch: ControllerEpoch
    new_ids: Mapping[str, TopicId]
    answers: Mapping[BrokerId, TopicIdAnswer]


class TopicDeletionStopReplicaResponseReceived(Event, frozen=True):
    """A broker's response about replicas of topics being deleted."""

    broker: BrokerId
    broker_epoch: BrokerEpoch
    error_code: ErrorCode
    results: dict[TopicPartition, ErrorCode]


class LeftReplicasResponseReceived(Event, frozen=True):
    """A broker's response about what it still had of topics that were deleted while it was away (D-99)."""

    broker: BrokerId
    broker_epoch: BrokerEpoch
    results: dict[TopicPartition, ErrorCode]


STATES: Final = {
    Startup: ControllerState.CONTROLLER_CHANGE,
    ControllerChange: ControllerState.CONTROLLER_CHANGE,
    ControllerEpochChange: ControllerState.CONTROLLER_CHANGE,
    ControllerEpochRefused: ControllerState.CONTROLLER_CHANGE,
    StandbyDiffered: ControllerState.CONTROLLER_CHANGE,
    Reelect: ControllerState.CONTROLLER_CHANGE,
    RegisterAndReelect: ControllerState.CONTROLLER_CHANGE,
    Expire: ControllerState.CONTROLLER_CHANGE,
    ShutdownEventLoop: ControllerState.CONTROLLER_SHUTDOWN,
    BrokerChange: ControllerState.BROKER_CHANGE,
    BrokerModifications: ControllerState.BROKER_CHANGE,
    TopicChange: ControllerState.TOPIC_CHANGE,
    PartitionModifications: ControllerState.TOPIC_CHANGE,
    PartitionStateChange: ControllerState.TOPIC_CHANGE,
    TopicIdsLost: ControllerState.TOPIC_CHANGE,
    TopicIdsAnswered: ControllerState.TOPIC_CHANGE,
    TopicDeletion: ControllerState.TOPIC_DELETION,
    ZkPartitionReassignment: ControllerState.ALTER_PARTITION_REASSIGNMENT,
    PartitionReassignmentIsrChange: ControllerState.ALTER_PARTITION_REASSIGNMENT,
    ReplicaLeaderElection: ControllerState.MANUAL_LEADER_BALANCE,
    IsrChangeNotification: ControllerState.ISR_CHANGE,
    LogDirEventNotification: ControllerState.LOG_DIR_CHANGE,
    AutoPreferredReplicaLeaderElection: ControllerState.AUTO_LEADER_BALANCE,
    UncleanLeaderElectionEnable: ControllerState.UNCLEAN_LEADER_ELECTION_ENABLE,
    TopicUncleanLeaderElectionEnable: ControllerState.TOPIC_UNCLEAN_LEADER_ELECTION_ENABLE,
    AbsentBrokersDue: ControllerState.TOPIC_DELETION,
    DamagedReplicaElection: ControllerState.BROKER_CHANGE,
    LeaderAndIsrResponseReceived: ControllerState.LEADER_AND_ISR_RESPONSE_RECEIVED,
    UpdateMetadataResponseReceived: ControllerState.UPDATE_METADATA_RESPONSE_RECEIVED,
    TopicDeletionStopReplicaResponseReceived: ControllerState.TOPIC_DELETION,
    LeftReplicasResponseReceived: ControllerState.TOPIC_DELETION,
}
