"""Checks that all replicas of a partition end with the same batches, including all acknowledged ones."""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from broker_agent.log.partition_log import PartitionLog
from broker_agent.log.record_batch import BatchHeader, walk
from cluster.model.broker import BrokerId, Offset
from cluster.model.partition import TopicPartition
from simulator.cluster import SimulatedCluster
from simulator.partition_znodes import assignments
from simulator.violations import violated


class BatchIdentity(NamedTuple):
    """The identity of a batch: offsets (`last` inclusive), leader epoch and checksum."""

    base: int
    last: int
    epoch: int
    crc: int


def batch_of(header: BatchHeader) -> BatchIdentity:
    return BatchIdentity(header.base_offset, header.last_offset, header.leader_epoch, header.crc)


def headers(log: PartitionLog, start: Offset) -> Iterator[BatchHeader]:
    """The headers of all batches from `start` to the end; one read returns those of one segment."""
    while start < log.log_end_offset:
        for _, header in walk(log.read(start, 1 << 30, log.log_end_offset, at_least_one=True)):
            yield header
            start = Offset(header.last_offset + 1)


def are_level(cluster: SimulatedCluster) -> bool:
    """Whether the replicas of each partition agree on log end and high watermark."""
    for tp, assignment in assignments(cluster.zookeeper.tree).items():
        logs = [_log(cluster, broker, tp) for broker in assignment.replicas]
        if any(log is None for log in logs):
            return False
        if len({(log.log_end_offset, log.high_watermark) for log in logs if log is not None}) > 1:
            return False
    return True


def check_contents(
    cluster: SimulatedCluster, acknowledged: Mapping[TopicPartition, Sequence[tuple[int, int]]], *, may_lose: bool
) -> None:
    """Compare the logs of replicas for which `are_level` holds. Raises ViolationError.

    `acknowledged`: base offset and checksum of each acknowledged batch. `may_lose`: there was a power failure, and
    batches that no ISR member had flushed may be lost; the replicas must be equal all the same.
    """
    for tp, assignment in assignments(cluster.zookeeper.tree).items():
        contents = [_read(tp, _log(cluster, broker, tp)) for broker in assignment.replicas]
        if any(content != contents[0] for content in contents):
            raise violated("P39", f"{tp} differs between {assignment.replicas}")
        present = {(batch.base, batch.crc) for batch in contents[0]}
        lost = [batch for batch in acknowledged.get(tp, ()) if batch not in present]
        if lost and not may_lose:
            raise violated("P28", f"{tp} has lost acknowledged batches (base offset, checksum): {lost}")


def _log(cluster: SimulatedCluster, broker: BrokerId, tp: TopicPartition) -> PartitionLog | None:
    partition = cluster.agents[broker].hosted(tp)
    return None if partition is None else partition.log


def _read(tp: TopicPartition, log: PartitionLog | None) -> list[BatchIdentity]:
    """Read all batches of a log, which must follow one another without a gap."""
    assert isinstance(log, PartitionLog), f"{tp} is hosted"
    batches: list[BatchIdentity] = []
    at: int = log.log_start_offset
    for header in headers(log, log.log_start_offset):
        if header.base_offset != at:
            raise violated("P2", f"{tp} has {header} at {at}")
        batches.append(batch_of(header))
        at = header.last_offset + 1
    return batches
