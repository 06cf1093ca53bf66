"""ElectLeadersResponse, versions 0-2. Made by cluster/kafka_wire/make_messages.py; do not edit."""

from typing import ClassVar

from cluster.kafka_wire.message import Message


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
