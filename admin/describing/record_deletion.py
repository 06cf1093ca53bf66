"""Deletes the records below an offset: asks the leader of each partition, and the next one when it has moved.

Source: Kafka KafkaAdminClient.deleteRecords, DeleteRecordsHandler; KIP-107.
"""

import asyncio
from collections.abc import Iterable, Mapping
from typing import Final

from admin.connecting.request_parts import send_in_parts
from admin.describing.topology import Topology
from admin.moving.progress import some_of
from cluster.model.broker import Offset
from cluster.model.errors import ApiError, ErrorCode, PeerUnreachableError
from cluster.model.partition import TopicPartition
from cluster.model.printable import counted
from cluster.requests.data import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsResult,
)

Results = dict[TopicPartition, DeleteRecordsResult]

_ANSWER_MS: Final = 3_000
"""The time that a leader's answer may take beyond the leader's own timeout."""
_RETRIABLE: Final = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.KAFKA_STORAGE_ERROR,
    }
)


async def delete_records(
    topology: Topology, offsets: Mapping[TopicPartition, Offset], *, wait_ms: int, validate_only: bool
) -> Results:
    """Delete records, and return a result for each partition, in the given order.

    The result is REQUEST_TIMED_OUT if a leader has not answered within `wait_ms`. It is safe to ask again, because a
    log start never falls. Raises PeerUnreachableError if no node says who leads.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + wait_ms / 1000
    results = await _refuse_unknown(topology, offsets)
    missing = {tp: offset for tp, offset in offsets.items() if tp not in results}
    with topology.client.waiting.named(
        lambda: f"no leader of {some_of(list(map(str, missing)))} has deleted the records yet", wait_ms / 1000
    ):
        while missing:
            left_ms = max(0, int((deadline - loop.time()) * 1000))
            results |= await _ask_leaders(topology, missing, left_ms, validate_only=validate_only)
            missing = {tp: o for tp, o in missing.items() if tp not in results or results[tp].error_code in _RETRIABLE}
            if loop.time() >= deadline:
                break
            await asyncio.gather(*(topology.refresh(topic) for topic in _topics(missing)))
    late = f"no leader answered within {wait_ms / 1000:g} s"
    silent = {tp: DeleteRecordsResult(*tp, ErrorCode.REQUEST_TIMED_OUT, error_message=late) for tp in missing}
    return {tp: results[tp] if tp in results else silent[tp] for tp in offsets}


async def _refuse_unknown(topology: Topology, offsets: Iterable[TopicPartition]) -> Results:
    """Refuse partitions that do not exist: a leader that does not know one may only have late metadata."""
    topics = _topics(offsets)
    known = dict(zip(topics, await asyncio.gather(*(_partitions(topology, t) for t in topics)), strict=True))
    return {
        tp: DeleteRecordsResult(*tp, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, error_message=_unknown(tp, known[tp.topic]))
        for tp in offsets
        if tp.partition not in known[tp.topic]
    }


async def _partitions(topology: Topology, topic: str) -> list[int]:
    try:
        return await topology.partitions(topic)
    except ApiError as error:
        if error.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise
        return []


def _unknown(tp: TopicPartition, known: list[int]) -> str:
    if not known:
        return f"topic {tp.topic!r} does not exist; 'klamm topics list' shows the existing ones"
    return f"topic {tp.topic!r} has {counted(len(known), 'partition')}, numbered from 0"


async def _ask_leaders(
    topology: Topology, offsets: Mapping[TopicPartition, Offset], timeout_ms: int, *, validate_only: bool
) -> Results:
    """Ask all leaders concurrently. Partitions whose leader is unreachable have no result."""
    by_leader: dict[str, list[DeleteRecordsPartition]] = {}
    for tp, offset in offsets.items():
        leader = topology.leader(*tp)
        if leader is not None:
            by_leader.setdefault(leader.address, []).append(DeleteRecordsPartition(*tp, offset))

    async def ask(address: str, items: list[DeleteRecordsPartition]) -> tuple[DeleteRecordsResult, ...]:
        async def send(request: DeleteRecordsRequest) -> DeleteRecordsResponse:
            try:
                response = await topology.client.ask_broker(address, request, timeout_ms + _ANSWER_MS)
            except PeerUnreachableError:
                return DeleteRecordsResponse(())
            return response

        return (await send_in_parts(DeleteRecordsRequest(timeout_ms, tuple(items), validate_only), send)).partitions

    answers = await asyncio.gather(*(ask(address, items) for address, items in by_leader.items()))
    return {TopicPartition(r.topic, r.partition): r for results in answers for r in results}


def _topics(partitions: Iterable[TopicPartition]) -> list[str]:
    return list(dict.fromkeys(tp.topic for tp in partitions))
