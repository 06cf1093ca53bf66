"""What the controller reacts to: one frozen value per kind of event. Requests are in `controller.request_events`.

Source: Kafka ControllerEvent.
"""

from msgspec import Struct

from cluster.broker import BrokerId
from cluster.errors import ErrorCode
from cluster.partition import TopicPartition
from cluster.requests.control import LeaderAndIsrResponse, UpdateMetadataResponse
from controller.controller_state import ControllerState


class Event(Struct, frozen=True):
    """Any of them."""

    @property
    def name(self) -> str:
        """What the state-change log calls it as a cause."""
        return type(self).__name__

    @property
    def state(self) -> ControllerState:
        """What the controller is said to be busy with meanwhile, and timed by (EV-3)."""
        return ControllerState.IDLE


# The candidate's own affairs, active or not


class Startup(Event, frozen=True):
    """The first session is up."""

    state = ControllerState.CONTROLLER_CHANGE


class ControllerChange(Event, frozen=True):
    """`/controller` was created or changed."""

    state = ControllerState.CONTROLLER_CHANGE


class Reelect(Event, frozen=True):
    """`/controller` was deleted."""

    state = ControllerState.CONTROLLER_CHANGE


class RegisterAndReelect(Event, frozen=True):
    """There is a new session, or the node of an earlier incarnation of this process is gone."""

    state = ControllerState.CONTROLLER_CHANGE


class Expire(Event, frozen=True):
    """The session is gone. Jumps the queue."""

    state = ControllerState.CONTROLLER_CHANGE


class ShutdownEventLoop(Event, frozen=True):
    """The process is to end. Jumps the queue."""

    state = ControllerState.CONTROLLER_SHUTDOWN


# What changed in ZooKeeper


class BrokerChange(Event, frozen=True):
    """Children of `/brokers/ids` changed."""

    state = ControllerState.BROKER_CHANGE


class BrokerModifications(Event, frozen=True):
    """The registration of this broker changed."""

    state = ControllerState.BROKER_CHANGE

    broker: BrokerId


class TopicChange(Event, frozen=True):
    """Children of `/brokers/topics` changed."""

    state = ControllerState.TOPIC_CHANGE


class PartitionModifications(Event, frozen=True):
    """The node of this topic changed."""

    state = ControllerState.TOPIC_CHANGE

    topic: str


class TopicDeletion(Event, frozen=True):
    """Children of `/admin/delete_topics` changed."""

    state = ControllerState.TOPIC_DELETION


class ZkPartitionReassignment(Event, frozen=True):
    """`/admin/reassign_partitions` was created, or this controller has deleted it and must watch for the next."""

    state = ControllerState.ALTER_PARTITION_REASSIGNMENT


class PartitionReassignmentIsrChange(Event, frozen=True):
    """The state node of a partition that is being moved changed; only where leaders write it themselves."""

    state = ControllerState.ALTER_PARTITION_REASSIGNMENT

    topic_partition: TopicPartition


class ReplicaLeaderElection(Event, frozen=True):
    """`/admin/preferred_replica_election` was created, or this controller has deleted it and waits for the next."""

    state = ControllerState.MANUAL_LEADER_BALANCE


class IsrChangeNotification(Event, frozen=True):
    """Children of `/isr_change_notification` changed."""

    state = ControllerState.ISR_CHANGE


class LogDirEventNotification(Event, frozen=True):
    """Children of `/log_dir_event_notification` changed."""

    state = ControllerState.LOG_DIR_CHANGE


# Time and settings


class AutoPreferredReplicaLeaderElection(Event, frozen=True):
    """It is time to look whether brokers lead what they were meant to lead."""

    state = ControllerState.AUTO_LEADER_BALANCE


class UncleanLeaderElectionEnable(Event, frozen=True):
    """The cluster's setting now allows unclean elections."""

    state = ControllerState.UNCLEAN_LEADER_ELECTION_ENABLE


class TopicUncleanLeaderElectionEnable(Event, frozen=True):
    """The setting of one topic now allows unclean elections."""

    state = ControllerState.TOPIC_UNCLEAN_LEADER_ELECTION_ENABLE

    topic: str


class ProcedureResumption(Event, frozen=True):
    """Some time ago ZooKeeper refused something: what was left half done is to be taken up again."""

    state = ControllerState.IDLE


# Answers of brokers


class LeaderAndIsrResponseReceived(Event, frozen=True):
    state = ControllerState.LEADER_AND_ISR_RESPONSE_RECEIVED

    broker: BrokerId
    response: LeaderAndIsrResponse


class UpdateMetadataResponseReceived(Event, frozen=True):
    state = ControllerState.UPDATE_METADATA_RESPONSE_RECEIVED

    broker: BrokerId
    response: UpdateMetadataResponse


class TopicDeletionStopReplicaResponseReceived(Event, frozen=True):
    """What a broker answered about replicas that it was to delete with their topics."""

    state = ControllerState.TOPIC_DELETION

    broker: BrokerId
    error_code: ErrorCode
    results: dict[TopicPartition, ErrorCode]
