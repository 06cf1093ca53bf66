"""ElectLeaders and partition reassignments of Kafka's clients.

Source: Kafka KafkaApis.handleElectLeaders, handleAlterPartitionReassignmentsRequest (KIP-455, KIP-460).
"""

from typing import Any, Final

from msgspec.structs import replace

from cluster.kafka_wire.api_keys import ApiKey
from cluster.kafka_wire.messages import partitions as wire_partitions
from cluster.model.broker import BrokerId
from cluster.model.errors import ApiError, ErrorCode
from cluster.requests import elections, reassignments
from controller.adapters.kafka.conversions import Conversion


def _elections(message: wire_partitions.ElectLeadersRequest) -> elections.ElectLeadersRequest:
    wanted = message.topic_partitions
    return elections.ElectLeadersRequest(
        message.election_type,
        None if wanted is None else tuple(elections.ElectLeadersTopic(t.topic, t.partitions) for t in wanted),
        message.timeout_ms,
    )


def _elected(
    _: wire_partitions.ElectLeadersRequest, response: elections.ElectLeadersResponse
) -> wire_partitions.ElectLeadersResponse:
    return wire_partitions.ElectLeadersResponse(
        replica_election_results=tuple(
            wire_partitions.ReplicaElectionResult(
                topic=topic.topic,
                partition_result=tuple(
                    wire_partitions.PartitionResult(
                        partition_id=result.partition_id,
                        error_code=result.error_code,
                        error_message=result.error_message,
                    )
                    for result in topic.partition_result
                ),
            )
            for topic in response.results
        )
    )


def _election_refused(
    message: wire_partitions.ElectLeadersRequest, error: ApiError
) -> wire_partitions.ElectLeadersResponse:
    """Version 0 has no error for the whole request, so each partition has it too."""

    def refused(partition: int) -> elections.PartitionElectionResult:
        return elections.PartitionElectionResult(partition, error.code, error.message)

    results = (
        elections.ReplicaElectionResult(topic.topic, tuple(map(refused, topic.partitions)))
        for topic in message.topic_partitions or ()
    )
    return replace(_elected(message, elections.ElectLeadersResponse(tuple(results))), error_code=error.code)


def _fitted(response: wire_partitions.ElectLeadersResponse, version: int) -> wire_partitions.ElectLeadersResponse:
    return response if version else replace(response, error_code=ErrorCode.NONE)


def _reassignments(
    message: wire_partitions.AlterPartitionReassignmentsRequest,
) -> reassignments.AlterPartitionReassignmentsRequest:
    return reassignments.AlterPartitionReassignmentsRequest(
        tuple(
            reassignments.ReassignableTopic(
                topic.name,
                tuple(
                    reassignments.ReassignablePartition(
                        p.partition_index, None if p.replicas is None else tuple(map(BrokerId, p.replicas))
                    )
                    for p in topic.partitions
                ),
            )
            for topic in message.topics
        ),
        message.timeout_ms,
    )


def _reassigned(
    _: wire_partitions.AlterPartitionReassignmentsRequest, response: reassignments.AlterPartitionReassignmentsResponse
) -> wire_partitions.AlterPartitionReassignmentsResponse:
    return wire_partitions.AlterPartitionReassignmentsResponse(
        error_message=None,
        responses=tuple(
            wire_partitions.ReassignableTopicResponse(
                name=topic.name,
                partitions=tuple(
                    wire_partitions.ReassignablePartitionResponse(
                        partition_index=p.partition_index, error_code=p.error_code, error_message=p.error_message
                    )
                    for p in topic.partitions
                ),
            )
            for topic in response.responses
        ),
    )


def _reassignment_refused(
    _: wire_partitions.AlterPartitionReassignmentsRequest, error: ApiError
) -> wire_partitions.AlterPartitionReassignmentsResponse:
    return wire_partitions.AlterPartitionReassignmentsResponse(error_code=error.code, error_message=error.message)


def _listing(
    message: wire_partitions.ListPartitionReassignmentsRequest,
) -> reassignments.ListPartitionReassignmentsRequest:
    wanted = message.topics
    return reassignments.ListPartitionReassignmentsRequest(
        None
        if wanted is None
        else tuple(reassignments.ListPartitionReassignmentsTopics(t.name, t.partition_indexes) for t in wanted),
        message.timeout_ms,
    )


def _listed(
    _: wire_partitions.ListPartitionReassignmentsRequest, response: reassignments.ListPartitionReassignmentsResponse
) -> wire_partitions.ListPartitionReassignmentsResponse:
    return wire_partitions.ListPartitionReassignmentsResponse(
        error_message=None,
        topics=tuple(
            wire_partitions.OngoingTopicReassignment(
                name=topic.name,
                partitions=tuple(
                    wire_partitions.OngoingPartitionReassignment(
                        partition_index=p.partition_index,
                        replicas=p.replicas,
                        adding_replicas=p.adding_replicas,
                        removing_replicas=p.removing_replicas,
                    )
                    for p in topic.partitions
                ),
            )
            for topic in response.topics
        ),
    )


def _listing_refused(
    _: wire_partitions.ListPartitionReassignmentsRequest, error: ApiError
) -> wire_partitions.ListPartitionReassignmentsResponse:
    return wire_partitions.ListPartitionReassignmentsResponse(error_code=error.code, error_message=error.message)


PARTITION_APIS: Final[tuple[Conversion[Any], ...]] = (
    Conversion(ApiKey.ELECT_LEADERS, _elections, _elected, _election_refused, fitted=_fitted),
    Conversion(ApiKey.ALTER_PARTITION_REASSIGNMENTS, _reassignments, _reassigned, _reassignment_refused),
    Conversion(ApiKey.LIST_PARTITION_REASSIGNMENTS, _listing, _listed, _listing_refused),
)
