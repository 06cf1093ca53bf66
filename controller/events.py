"""Events of the controller's event loop, one frozen type each. Requests are in `controller.request_events`.

Source: Kafka ControllerEvent.
"""

from msgspec import Struct

from cluster.broker import BrokerId
from cluster.errors import ErrorCode
from cluster.partition import TopicPartition
from cluster.requests.control import LeaderAndIsrResponse, UpdateMetadataResponse
from controller.controller_state import ControllerState


class Event(Struct, frozen=True):
    """Base of all events."""

    @property
    def name(self) -> str:
        """The name of the event as a cause in the state-change log."""
        return type(self).__name__

    @property
    def state(self) -> ControllerState:
        """The controller state while the event is processed, for metrics (EV-3)."""
        return ControllerState.IDLE

    @property
    def changes_cluster(self) -> bool:
        """Whether its handler writes, so that an error of ZooKeeper may leave something half done."""
        return True


# Election and session, processed whether active or not


class Startup(Event, frozen=True):
    """The first ZooKeeper session was established."""

    state = ControllerState.CONTROLLER_CHANGE


class ControllerChange(Event, frozen=True):
    """`/controller` was created or changed."""

    state = ControllerState.CONTROLLER_CHANGE


class Reelect(Event, frozen=True):
    """`/controller` was deleted."""

    state = ControllerState.CONTROLLER_CHANGE


class RegisterAndReelect(Event, frozen=True):
    """A new session was established, or the registration of an earlier incarnation of this process was deleted."""

    state = ControllerState.CONTROLLER_CHANGE


class Expire(Event, frozen=True):
    """The session expired. Preempts all queued events."""

    state = ControllerState.CONTROLLER_CHANGE


class ShutdownEventLoop(Event, frozen=True):
    """The process is shutting down. Preempts all queued events."""

    state = ControllerState.CONTROLLER_SHUTDOWN


# Watches


class BrokerChange(Event, frozen=True):
    """The children of `/brokers/ids` changed."""

    state = ControllerState.BROKER_CHANGE


class BrokerModifications(Event, frozen=True):
    """The registration of this broker changed."""

    state = ControllerState.BROKER_CHANGE

    broker: BrokerId


class TopicChange(Event, frozen=True):
    """The children of `/brokers/topics` changed."""

    state = ControllerState.TOPIC_CHANGE


class PartitionModifications(Event, frozen=True):
    """The znode of this topic changed."""

    state = ControllerState.TOPIC_CHANGE

    topic: str


class PartitionStateChange(Event, frozen=True):
    """The state znode of this partition changed, which was malformed when last read."""

    state = ControllerState.TOPIC_CHANGE

    topic_partition: TopicPartition


class TopicDeletion(Event, frozen=True):
    """The children of `/admin/delete_topics` changed."""

    state = ControllerState.TOPIC_DELETION


class ZkPartitionReassignment(Event, frozen=True):
    """`/admin/reassign_partitions` was created, or this controller deleted it and must arm the watch again."""

    state = ControllerState.ALTER_PARTITION_REASSIGNMENT


class PartitionReassignmentIsrChange(Event, frozen=True):
    """The state znode of a partition being reassigned changed; only used where leaders write ISRs to ZooKeeper."""

    state = ControllerState.ALTER_PARTITION_REASSIGNMENT

    topic_partition: TopicPartition


class ReplicaLeaderElection(Event, frozen=True):
    """`/admin/preferred_replica_election` was created, or this controller deleted it and must arm the watch again."""

    state = ControllerState.MANUAL_LEADER_BALANCE


class IsrChangeNotification(Event, frozen=True):
    """The children of `/isr_change_notification` changed."""

    state = ControllerState.ISR_CHANGE


class LogDirEventNotification(Event, frozen=True):
    """The children of `/log_dir_event_notification` changed."""

    state = ControllerState.LOG_DIR_CHANGE


# Timers and settings


class AutoPreferredReplicaLeaderElection(Event, frozen=True):
    """The periodic preferred leader check is due."""

    state = ControllerState.AUTO_LEADER_BALANCE


class UncleanLeaderElectionEnable(Event, frozen=True):
    """The cluster-wide setting now allows unclean elections."""

    state = ControllerState.UNCLEAN_LEADER_ELECTION_ENABLE


class TopicUncleanLeaderElectionEnable(Event, frozen=True):
    """The setting of one topic now allows unclean elections."""

    state = ControllerState.TOPIC_UNCLEAN_LEADER_ELECTION_ENABLE

    topic: str


class ProcedureResumption(Event, frozen=True):
    """Procedures that stopped at a write refused by ZooKeeper are to be retried."""

    state = ControllerState.IDLE


# Responses of brokers


class LeaderAndIsrResponseReceived(Event, frozen=True):
    state = ControllerState.LEADER_AND_ISR_RESPONSE_RECEIVED

    broker: BrokerId
    response: LeaderAndIsrResponse


class UpdateMetadataResponseReceived(Event, frozen=True):
    state = ControllerState.UPDATE_METADATA_RESPONSE_RECEIVED

    broker: BrokerId
    response: UpdateMetadataResponse


class TopicDeletionStopReplicaResponseReceived(Event, frozen=True):
    """A broker's response about replicas of topics being deleted."""

    state = ControllerState.TOPIC_DELETION

    broker: BrokerId
    error_code: ErrorCode
    results: dict[TopicPartition, ErrorCode]
