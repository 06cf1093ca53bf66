"""Made by cluster/kafka_wire/make_messages.py; do not edit.

Messages and their versions: AlterPartitionReassignmentsRequest 0, AlterPartitionReassignmentsResponse 0,
ElectLeadersRequest 0-2, ElectLeadersResponse 0-2, ListPartitionReassignmentsRequest 0,
ListPartitionReassignmentsResponse 0.
"""

from typing import ClassVar

from cluster.kafka_wire.message import Message


class ReassignablePartition(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "AlterPartitionReassignmentsRequest"

    partition_index: int = 0
    replicas: tuple[int, ...] | None = None


class ReassignableTopic(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "AlterPartitionReassignmentsRequest"

    name: str = ""
    partitions: tuple[ReassignablePartition, ...] = ()


class AlterPartitionReassignmentsRequest(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "AlterPartitionReassignmentsRequest"

    timeout_ms: int = 60000
    topics: tuple[ReassignableTopic, ...] = ()


class ReassignablePartitionResponse(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "AlterPartitionReassignmentsResponse"

    partition_index: int = 0
    error_code: int = 0
    error_message: str | None = ""


class ReassignableTopicResponse(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "AlterPartitionReassignmentsResponse"

    name: str = ""
    partitions: tuple[ReassignablePartitionResponse, ...] = ()


class AlterPartitionReassignmentsResponse(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "AlterPartitionReassignmentsResponse"

    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = ""
    responses: tuple[ReassignableTopicResponse, ...] = ()


class ElectLeadersRequestTopicPartitions(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "ElectLeadersRequest"

    topic: str = ""
    partitions: tuple[int, ...] = ()


class ElectLeadersRequest(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "ElectLeadersRequest"

    election_type: int = 0  # 1+
    topic_partitions: tuple[ElectLeadersRequestTopicPartitions, ...] | None = ()
    timeout_ms: int = 60000


class PartitionResult(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "ElectLeadersResponse"

    partition_id: int = 0
    error_code: int = 0
    error_message: str | None = ""


class ReplicaElectionResult(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "ElectLeadersResponse"

    topic: str = ""
    partition_result: tuple[PartitionResult, ...] = ()


class ElectLeadersResponse(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "ElectLeadersResponse"

    throttle_time_ms: int = 0
    error_code: int = 0  # 1+
    replica_election_results: tuple[ReplicaElectionResult, ...] = ()


class ListPartitionReassignmentsTopics(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "ListPartitionReassignmentsRequest"

    name: str = ""
    partition_indexes: tuple[int, ...] = ()


class ListPartitionReassignmentsRequest(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "ListPartitionReassignmentsRequest"

    timeout_ms: int = 60000
    topics: tuple[ListPartitionReassignmentsTopics, ...] | None = None


class OngoingPartitionReassignment(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "ListPartitionReassignmentsResponse"

    partition_index: int = 0
    replicas: tuple[int, ...] = ()
    adding_replicas: tuple[int, ...] = ()
    removing_replicas: tuple[int, ...] = ()


class OngoingTopicReassignment(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "ListPartitionReassignmentsResponse"

    name: str = ""
    partitions: tuple[OngoingPartitionReassignment, ...] = ()


class ListPartitionReassignmentsResponse(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "ListPartitionReassignmentsResponse"

    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = ""
    topics: tuple[OngoingTopicReassignment, ...] = ()
