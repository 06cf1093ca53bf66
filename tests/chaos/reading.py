"""What is there after a round: the records that leaders serve, and the bytes that replicas have on their disks."""

import asyncio
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from admin.consuming.record_history import Stored
from admin.describing.topology import Topology
from broker_agent.log.record_batch import walk
from launcher.demo.klamm import read_all as read_topic
from tests.chaos.producers import id_of

_POLL_S: Final = 0.5


async def read_all(topology: Topology, topic: str, partitions: int, timeout_s: float) -> dict[int, list[Stored]]:
    """All records of a topic, by partition. Raises TimeoutError, and what the consumer raises."""
    async with asyncio.timeout(timeout_s):
        read = await read_topic(topology, topic, timeout_s)
    assert sorted(read) == list(range(partitions))
    return {partition: [Stored(offset, id_of(value)) for offset, value in read[partition]] for partition in read}


def batches_below(directory: Path, high_watermark: int) -> dict[int, bytes]:
    """The batches of a replica that end at or below the high watermark, by base offset, as they are on its disk."""
    found: dict[int, bytes] = {}
    for segment in sorted(directory.glob("*.log")):
        content = segment.read_bytes()
        for position, header in walk(content):
            if header.last_offset < high_watermark:
                found[header.base_offset] = content[position : position + header.size]
    return found


async def compare_replicas(
    disks: Mapping[str, Path], topic: str, replicas: Mapping[int, list[str]], ends: Mapping[int, int], timeout_s: float
) -> list[str]:
    """How replicas differ below the high watermarks `ends`; waits while some are still catching up.

    `replicas`: the brokers of each partition, its leader first. Returns nothing once all are equal.
    """
    deadline = time.monotonic() + timeout_s
    while True:
        different = [
            message
            for partition, brokers in replicas.items()
            for message in _compare(disks, f"{topic}-{partition}", brokers, ends[partition])
        ]
        if not different or time.monotonic() > deadline:
            return different
        await asyncio.sleep(_POLL_S)


def _compare(disks: Mapping[str, Path], name: str, brokers: list[str], end: int) -> list[str]:
    leader, *followers = brokers
    expected = batches_below(disks[leader] / name, end)
    different = []
    for follower in followers:
        present = batches_below(disks[follower] / name, end)
        if present == expected:
            continue
        offset = min(o for o in {*present, *expected} if present.get(o) != expected.get(o))
        what = (
            "lacks the batch"
            if offset not in present
            else "has a batch that the leader has not"
            if offset not in expected
            else "has other bytes in the batch"
        )
        different.append(f"{name}: {follower} {what} at offset {offset}; {leader} leads")
    return different
