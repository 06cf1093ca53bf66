"""What klamm's clients ask of brokers, as requests of Kafka's protocol, and the answers as klamm's own.

Fields that the version of a broker lacks have their defaults, so that one message serves every version.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeVar

from msgspec import Struct

from cluster.kafka_wire.message import Message
from cluster.kafka_wire.messages import (
    delete_records_request,
    delete_records_response,
    list_offsets_request,
    list_offsets_response,
    metadata_request,
    metadata_response,
)
from cluster.model.broker import ZERO_TOPIC_ID, BrokerId, ControllerId, LeaderEpoch, Offset
from cluster.model.errors import ApiError, ErrorCode, known_code
from cluster.requests.data import (
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsResult,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsResult,
    MetadataBroker,
    MetadataPartition,
    MetadataRequest,
    MetadataResponse,
    MetadataTopic,
)
from cluster.requests.elections import ShutdownRequest

_Item = TypeVar("_Item")
HOW_TO_STOP: Final = (
    "a broker of Apache Kafka is stopped by SIGTERM: run kafka-server-stop.sh on its host, or stop its service there; "
    "with controlled.shutdown.enable, the default, it first asks the controller to move its leaderships away"
)
_INSTEAD: Final[Mapping[type[Struct], str]] = {ShutdownRequest: HOW_TO_STOP}


class Conversion(NamedTuple):
    """The message for a request, and the response for the answer, which is of this type."""

    message: Callable[[Any], Message]
    answer_type: type[Message]
    response: Callable[[Any], Struct]


def refusal(address: str, request: Struct) -> ApiError:
    """Explain why a request is not sent to a broker of Apache Kafka."""
    name = type(request).__name__.removesuffix("Request")
    why = _INSTEAD.get(type(request), f"brokers of Apache Kafka, such as that at {address}, have no {name}")
    return ApiError(ErrorCode.UNSUPPORTED_VERSION, why)


def explained(code: ErrorCode, number: int) -> str:
    """The meaning that Kafka gives to an error code that has no name in klamm; "" for the other codes."""
    return f"error {number} of Kafka's protocol" if code is ErrorCode.UNKNOWN_SERVER_ERROR and number != code else ""


def _by_topic(items: Iterable[Any], part: Callable[[Any], _Item]) -> Iterable[tuple[str, tuple[_Item, ...]]]:
    found: dict[str, list[_Item]] = {}
    for item in items:
        found.setdefault(item.topic, []).append(part(item))
    return ((topic, tuple(parts)) for topic, parts in found.items())


def _metadata_message(request: MetadataRequest) -> Message:
    named = None if request.topics is None else [metadata_request.MetadataRequestTopic(name=n) for n in request.topics]
    return metadata_request.MetadataRequest(
        topics=None if named is None else tuple(named), allow_auto_topic_creation=False
    )


def _metadata(answer: metadata_response.MetadataResponse) -> MetadataResponse:
    return MetadataResponse(
        tuple(MetadataBroker(BrokerId(b.node_id), b.host, b.port, b.rack) for b in answer.brokers),
        answer.cluster_id or "",
        ControllerId(answer.controller_id),
        tuple(map(_metadata_topic, answer.topics)),
    )


def _metadata_topic(topic: metadata_response.MetadataResponseTopic) -> MetadataTopic:
    partitions = (
        MetadataPartition(
            p.partition_index,
            known_code(p.error_code),
            BrokerId(p.leader_id),
            LeaderEpoch(p.leader_epoch),
            _brokers(p.replica_nodes),
            _brokers(p.isr_nodes),
            _brokers(p.offline_replicas),
        )
        for p in topic.partitions
    )
    topic_id = None if topic.topic_id == ZERO_TOPIC_ID else topic.topic_id
    return MetadataTopic(topic.name or "", topic_id, known_code(topic.error_code), tuple(partitions))


def _brokers(ids: Sequence[int]) -> tuple[BrokerId, ...]:
    return tuple(map(BrokerId, ids))


def offsets_message(request: ListOffsetsRequest) -> list_offsets_request.ListOffsetsRequest:
    topics = _by_topic(
        request.partitions,
        lambda p: list_offsets_request.ListOffsetsPartition(
            partition_index=p.partition, current_leader_epoch=p.current_leader_epoch, timestamp=p.timestamp
        ),
    )
    return list_offsets_request.ListOffsetsRequest(
        replica_id=request.replica_id,
        isolation_level=request.isolation_level,
        topics=tuple(list_offsets_request.ListOffsetsTopic(name=n, partitions=parts) for n, parts in topics),
    )


def offsets_response(answer: list_offsets_response.ListOffsetsResponse) -> ListOffsetsResponse:
    return ListOffsetsResponse(
        tuple(
            ListOffsetsResult(
                topic.name,
                p.partition_index,
                known_code(p.error_code),
                p.timestamp,
                Offset(p.offset),
                LeaderEpoch(p.leader_epoch),
            )
            for topic in answer.topics
            for p in topic.partitions
        )
    )


def _deletion_message(request: DeleteRecordsRequest) -> Message:
    topics = _by_topic(
        request.partitions,
        lambda p: delete_records_request.DeleteRecordsPartition(partition_index=p.partition, offset=p.offset),
    )
    return delete_records_request.DeleteRecordsRequest(
        topics=tuple(delete_records_request.DeleteRecordsTopic(name=n, partitions=parts) for n, parts in topics),
        timeout_ms=request.timeout_ms,
    )


def _deletion_response(answer: delete_records_response.DeleteRecordsResponse) -> DeleteRecordsResponse:
    return DeleteRecordsResponse(
        tuple(
            DeleteRecordsResult(
                topic.name,
                p.partition_index,
                code := known_code(p.error_code),
                Offset(p.low_watermark),
                explained(code, p.error_code),
            )
            for topic in answer.topics
            for p in topic.partitions
        )
    )


CONVERSIONS: Final[Mapping[type[Struct], Conversion]] = {
    MetadataRequest: Conversion(_metadata_message, metadata_response.MetadataResponse, _metadata),
    ListOffsetsRequest: Conversion(offsets_message, list_offsets_response.ListOffsetsResponse, offsets_response),
    DeleteRecordsRequest: Conversion(
        _deletion_message, delete_records_response.DeleteRecordsResponse, _deletion_response
    ),
}
"""By klamm's request. A dry run of a deletion has no request of Kafka's (`admin.kafka_dry_runs`)."""
