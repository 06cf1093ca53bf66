"""ElectLeaders and partition reassignments of Kafka's clients.

Source: Kafka KafkaApis.handleElectLeaders, handleAlterPartitionReassignmentsRequest (KIP-455, KIP-460).
"""

from typing import Any, Final

from msgspec.structs import replace

from cluster.kafka_wire.messages.api_keys import ApiKey
from cluster.kafka_wire.messages.partitions import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)
from cluster.model.errors import ApiError, ErrorCode
from cluster.requests import elections, reassignments
from controller.adapters.kafka.conversions import AnsweredApi


def _election_refused(message: ElectLeadersRequest, error: ApiError) -> ElectLeadersResponse:
    """Version 0 has no error for the whole request, so each partition has it too."""

    def refused(partition: int) -> PartitionResult:
        return PartitionResult(partition_id=partition, error_code=error.code, error_message=error.message)

    results = (
        ReplicaElectionResult(topic=topic.topic, partition_result=tuple(map(refused, topic.partitions)))
        for topic in message.topic_partitions or ()
    )
    return ElectLeadersResponse(error_code=error.code, replica_election_results=tuple(results))


def _fitted(response: ElectLeadersResponse, version: int) -> ElectLeadersResponse:
    return response if version else replace(response, error_code=ErrorCode.NONE)


PARTITION_APIS: Final[tuple[AnsweredApi[Any], ...]] = (
    AnsweredApi(ApiKey.ELECT_LEADERS, elections.ElectLeadersRequest, _election_refused, fitted=_fitted),
    AnsweredApi(ApiKey.ALTER_PARTITION_REASSIGNMENTS, reassignments.AlterPartitionReassignmentsRequest),
    AnsweredApi(ApiKey.LIST_PARTITION_REASSIGNMENTS, reassignments.ListPartitionReassignmentsRequest),
)
