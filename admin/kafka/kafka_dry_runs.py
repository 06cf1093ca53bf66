"""Predicts a deletion of records at a broker of Apache Kafka, whose DeleteRecords has no dry run and gives no reasons.

It checks what the leader would refuse. Source: Kafka ReplicaManager.deleteRecordsOnLocalLog,
Partition.deleteRecordsOnLeader, UnifiedLog.maybeIncrementLogStartOffset.
"""

from collections.abc import Awaitable, Mapping
from contextlib import suppress
from typing import Final, Protocol, TypeVar

from msgspec.structs import replace

from cluster.kafka_wire.conversion import convert
from cluster.kafka_wire.message import Message
from cluster.kafka_wire.messages import data as wire_data
from cluster.kafka_wire.messages.configs import DescribeConfigsRequest, DescribeConfigsResource, DescribeConfigsResponse
from cluster.model.broker import UNKNOWN_OFFSET, BrokerId
from cluster.model.errors import ApiError, ErrorCode, PeerUnreachableError, known_code
from cluster.model.partition import TopicPartition
from cluster.requests.configs import TOPIC_RESOURCE
from cluster.requests.data import (
    EARLIEST_TIMESTAMP,
    LATEST_TIMESTAMP,
    UP_TO_HIGH_WATERMARK,
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsResult,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsResult,
)

_Answer = TypeVar("_Answer", bound=Message)
_POLICY: Final = "cleanup.policy"
_INTERNAL_TOPICS: Final = frozenset({"__consumer_offsets", "__transaction_state"})
_CLIENT: Final = BrokerId(-1)
_EXPLAINED: Final = frozenset(
    {ErrorCode.OFFSET_OUT_OF_RANGE, ErrorCode.POLICY_VIOLATION, ErrorCode.INVALID_TOPIC_EXCEPTION}
)


class Ask(Protocol):
    """Sends one request to the leader. Raises PeerUnreachableError, ApiError."""

    def __call__(self, message: Message, answer_type: type[_Answer]) -> Awaitable[_Answer]: ...


async def plan_deletion(ask: Ask, request: DeleteRecordsRequest) -> DeleteRecordsResponse:
    """Predict the response of the leader to a deletion; the low watermark is the present start of its log."""
    starts = await _offsets(ask, request, EARLIEST_TIMESTAMP)
    ends = await _offsets(ask, request, LATEST_TIMESTAMP)
    policies = await _policies(ask, sorted({item.topic for item in request.partitions}))
    results = []
    for item in request.partitions:
        tp = TopicPartition(item.topic, item.partition)
        results.append(_check(item, starts[tp], ends[tp], policies.get(item.topic, "")))
    return DeleteRecordsResponse(tuple(results))


async def with_reasons(
    ask: Ask, request: DeleteRecordsRequest, response: DeleteRecordsResponse
) -> DeleteRecordsResponse:
    """Add the reasons that a dry run finds to the refusals in the response of a leader, which have none."""
    refused = {(r.topic, r.partition) for r in response.partitions if r.error_code in _EXPLAINED}
    if not refused:
        return response
    again = replace(request, partitions=tuple(p for p in request.partitions if (p.topic, p.partition) in refused))
    reasons: dict[tuple[str, int, ErrorCode], str] = {}
    # The records are deleted or not, whether or not somebody tells why.
    with suppress(PeerUnreachableError, ApiError):
        planned = await plan_deletion(ask, again)
        reasons = {(r.topic, r.partition, r.error_code): r.error_message for r in planned.partitions}
    return DeleteRecordsResponse(
        tuple(
            replace(r, error_message=reasons.get((r.topic, r.partition, r.error_code)) or r.error_message)
            for r in response.partitions
        )
    )


async def _offsets(ask: Ask, request: DeleteRecordsRequest, at: int) -> dict[TopicPartition, ListOffsetsResult]:
    wanted = tuple(ListOffsetsPartition(item.topic, item.partition, at) for item in request.partitions)
    asked = convert(ListOffsetsRequest(_CLIENT, wanted), wire_data.ListOffsetsRequest)
    answer = convert(await ask(asked, wire_data.ListOffsetsResponse), ListOffsetsResponse)
    unknown = {TopicPartition(*p): _unknown(*p) for p in ((w.topic, w.partition) for w in wanted)}
    return unknown | {TopicPartition(r.topic, r.partition): r for r in answer.partitions}


def _unknown(topic: str, partition: int) -> ListOffsetsResult:
    return ListOffsetsResult(topic, partition, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


async def _policies(ask: Ask, topics: list[str]) -> Mapping[str, str]:
    resources = tuple(
        DescribeConfigsResource(resource_type=TOPIC_RESOURCE, resource_name=topic, configuration_keys=(_POLICY,))
        for topic in topics
    )
    answer = await ask(DescribeConfigsRequest(resources=resources), DescribeConfigsResponse)
    return {
        result.resource_name: config.value or ""
        for result in answer.results
        for config in result.configs
        if known_code(result.error_code) is ErrorCode.NONE and config.name == _POLICY
    }


def _check(
    item: DeleteRecordsPartition, start: ListOffsetsResult, end: ListOffsetsResult, policy: str
) -> DeleteRecordsResult:
    code, why = ErrorCode.NONE, ""
    if item.topic in _INTERNAL_TOPICS:
        code, why = ErrorCode.INVALID_TOPIC_EXCEPTION, f"{item.topic} is internal"
    elif (failed := next((r for r in (start, end) if r.error_code is not ErrorCode.NONE), None)) is not None:
        code = failed.error_code
    elif policy and "delete" not in policy.split(","):
        code, why = ErrorCode.POLICY_VIOLATION, f"{_POLICY} of {item.topic} is {policy}, without delete"
    elif item.offset != UP_TO_HIGH_WATERMARK and not 0 <= item.offset <= end.offset:
        why = f"offset {item.offset} is neither -1 nor within 0 and the high watermark {end.offset}"
        code = ErrorCode.OFFSET_OUT_OF_RANGE
    low_watermark = start.offset if code is ErrorCode.NONE else UNKNOWN_OFFSET
    return DeleteRecordsResult(item.topic, item.partition, code, low_watermark, why)
