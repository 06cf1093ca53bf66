"""Asks leaders for offsets of partitions at a time: where logs begin and end, and the first record since then."""

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from typing import Final

from admin.describing.topology import Topology
from admin.moving.progress import some_of
from cluster.model.broker import Offset
from cluster.model.errors import ApiError, ErrorCode, PeerUnreachableError
from cluster.requests.data import CONSUMER, ListOffsetsPartition, ListOffsetsRequest, ListOffsetsResult

_LEADER_TIMEOUT_MS: Final = 5_000
RETRIABLE: Final = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
    }
)
"""Errors after which to ask again: the leader has changed, or is about to."""


async def list_offsets(
    topology: Topology, topic: str, timestamps: Mapping[int, int], timeout_s: float
) -> dict[int, Offset]:
    """Find offsets as `find_offsets` does. Raises PeerUnreachableError when a partition has no answer in time."""
    found = await find_offsets(topology, topic, timestamps, timeout_s)
    if len(found) < len(timestamps):
        missing_names = ", ".join(f"{topic}-{p}" for p in sorted(timestamps) if p not in found)
        raise PeerUnreachableError(
            missing_names,
            f"no leader answered within {timeout_s:g} s; 'klamm topics describe' shows the leaders,"
            " 'klamm cluster health' what is wrong",
        )
    return found


async def find_offsets(
    topology: Topology, topic: str, timestamps: Mapping[int, int], timeout_s: float
) -> dict[int, Offset]:
    """Find only the offsets of what `find_times` finds."""
    found = await find_times(topology, topic, timestamps, timeout_s)
    return {partition: result.offset for partition, result in found.items()}


async def find_times(
    topology: Topology, topic: str, timestamps: Mapping[int, int], timeout_s: float
) -> dict[int, ListOffsetsResult]:
    """Ask the leaders for the offset of each partition at a timestamp (ms, or one with a meaning of its own in
    ListOffsets: LATEST_TIMESTAMP, EARLIEST_TIMESTAMP, MAX_TIMESTAMP), with the timestamp of the record there.

    If a leader changes, the next one is asked. Partitions without an answer in time are missing. Raises ApiError.
    """
    found: dict[int, ListOffsetsResult] = {}
    limit_s = min(timeout_s, topology.client.limits.left_s)

    def without_answer() -> str:
        missing = [f"{topic}-{partition}" for partition in sorted(timestamps) if partition not in found]
        return f"no leader of {some_of(missing)} answers yet"

    with contextlib.suppress(TimeoutError), topology.client.waiting.named(without_answer, limit_s):
        async with asyncio.timeout(limit_s):
            while missing := {p: t for p, t in timestamps.items() if p not in found}:
                await _ask_leaders(topology, topic, missing, found)
                if len(found) < len(timestamps):
                    await topology.refresh(topic)
    return found


async def _ask_leaders(
    topology: Topology, topic: str, timestamps: Mapping[int, int], found: dict[int, ListOffsetsResult]
) -> None:
    """Ask all leaders at once; what one of them answers is `found` also where another is silent."""
    by_leader: dict[str, list[ListOffsetsPartition]] = {}
    for partition, timestamp in timestamps.items():
        leader = topology.leader(topic, partition)
        if leader is not None:
            asked = ListOffsetsPartition(topic, partition, timestamp, leader.epoch)
            by_leader.setdefault(leader.address, []).append(asked)

    async def ask(address: str, partitions: Sequence[ListOffsetsPartition]) -> None:
        try:
            request = ListOffsetsRequest(CONSUMER, tuple(partitions))
            response = await topology.client.ask_broker(address, request, _LEADER_TIMEOUT_MS)
        except PeerUnreachableError:
            return
        for result in response.partitions:
            if result.error_code is ErrorCode.NONE:
                found[result.partition] = result
            elif result.error_code not in RETRIABLE:
                raise ApiError(result.error_code, f"offset of {topic}-{result.partition}")

    await asyncio.gather(*(ask(address, partitions) for address, partitions in by_leader.items()))
