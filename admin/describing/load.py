"""Measures what a cluster is busy with, by two samples: elections, ISR changes, failovers and records per second.

It asks only what every cluster answers: epochs count elections and ISR changes, end offsets count records.
"""

import asyncio
import contextlib
import heapq
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

from msgspec import Struct

from admin.connecting.client import AdminClient
from admin.moving.partition_filters import PartitionFilter, chosen
from cluster.model.broker import NO_LEADER, BrokerId, Offset
from cluster.model.errors import ApiError, ErrorCode, PeerUnreachableError
from cluster.model.partition import TopicPartition
from cluster.requests.cluster import DescribeClusterResponse
from cluster.requests.data import (
    CONSUMER,
    LATEST_TIMESTAMP,
    ListOffsetsPartition,
    ListOffsetsRequest,
)
from cluster.requests.plans import DescribedPartition
from cluster.requests.topics import DescribedTopic


class Sample(Struct, frozen=True):
    """Holds one observation of the cluster. `at_s`: the time by the event loop's clock.

    `ends`: end offsets for consumers, of the partitions whose leader answered.
    """

    at_s: float
    cluster: DescribeClusterResponse
    topics: Sequence[DescribedTopic]
    ends: Mapping[TopicPartition, Offset]

    @property
    def partitions(self) -> dict[TopicPartition, DescribedPartition]:
        return {TopicPartition(t.name, p.partition): p for t in self.topics for p in t.partitions}


class BusyPartition(Struct, frozen=True):
    """Describes a partition with new records. `records_per_s` counts replicated records, as consumers see them."""

    topic: str
    partition: int
    leader: BrokerId
    records_per_s: float
    end_offset: Offset


class BrokerLoad(Struct, frozen=True):
    """Holds the load of one broker. `records_per_s` counts those of the partitions that it leads."""

    id: BrokerId
    state: str
    leaders: int
    replicas: int
    records_per_s: float


class Load(Struct, frozen=True):
    """Holds the load of a cluster between two samples, `seconds` apart, and its state at the second.

    `failovers`: the number of elections of a controller. `counts`: the number of partitions, and of those to which each
    filter applies. `uncounted`: the leaders whose records are not known.
    """

    seconds: float
    controller_id: int
    controller_epoch: int
    failovers: int
    elections: int
    isr_changes: int
    records_per_s: float
    counts: dict[str, int]
    brokers: list[BrokerLoad]
    busiest: list[BusyPartition]
    uncounted: list[BrokerId]


async def take_sample(client: AdminClient) -> Sample:
    """Ask the controller and the leaders. Raises what the client raises if no controller answers.

    The offsets of a leader that does not answer are missing.
    """
    described = await client.describe_controller()
    topics = (await client.describe_topics()).topics
    addresses = {broker.id: broker.endpoint.address for broker in described.brokers}
    by_leader: dict[BrokerId, list[ListOffsetsPartition]] = {}
    for topic in topics:
        for p in topic.partitions:
            if p.leader in addresses:
                asked = ListOffsetsPartition(topic.name, p.partition, LATEST_TIMESTAMP, p.leader_epoch)
                by_leader.setdefault(p.leader, []).append(asked)
    questions = [(f"broker {leader}", _ends(client, addresses[leader], asked)) for leader, asked in by_leader.items()]
    found = await client.waiting.answers(questions, client.limits.probe_ms / 1000, is_fixed=True)
    ends = {partition: end for of_leader in found for partition, end in of_leader.items()}
    return Sample(asyncio.get_running_loop().time(), described, topics, ends)


async def _ends(
    client: AdminClient, address: str, asked: Sequence[ListOffsetsPartition]
) -> dict[TopicPartition, Offset]:
    with contextlib.suppress(ApiError, PeerUnreachableError):
        response = await client.ask_broker(address, ListOffsetsRequest(CONSUMER, tuple(asked)), client.limits.probe_ms)
        answered = (result for result in response.partitions if result.error_code is ErrorCode.NONE)
        return {TopicPartition(result.topic, result.partition): result.offset for result in answered}
    return {}


def compare(before: Sample, after: Sample, busiest: int) -> Load:
    """Compute the load between two samples; `busiest`: how many partitions with new records to name, busiest first."""
    seconds = after.at_s - before.at_s
    old, new = before.partitions, after.partitions
    elections = isr_changes = 0
    for key, p in new.items():
        # A partition that is new, or that was deleted and created again, begins with its first epochs.
        if (was := old.get(key)) is not None and p.partition_epoch >= was.partition_epoch:
            elections += (elected := max(0, p.leader_epoch - was.leader_epoch))
            isr_changes += max(0, p.partition_epoch - was.partition_epoch - elected)
    rates = {
        key: (end - before.ends[key]) / seconds
        for key, end in after.ends.items()
        if key in before.ends and end >= before.ends[key]
    }
    busy = heapq.nlargest(busiest, (key for key, rate in rates.items() if rate > 0), key=lambda key: rates[key])
    return Load(
        seconds,
        int(after.cluster.controller_id),
        int(after.cluster.controller_epoch),
        int(after.cluster.controller_epoch) - int(before.cluster.controller_epoch),
        elections,
        isr_changes,
        sum(rates.values()),
        _counts(after.topics),
        _brokers(after, rates),
        [BusyPartition(*key, new[key].leader, rates[key], after.ends[key]) for key in busy],
        sorted({p.leader for p in new.values()} - {new[key].leader for key in after.ends if key in new} - {NO_LEADER}),
    )


def _counts(topics: Sequence[DescribedTopic]) -> dict[str, int]:
    counts = {"topics": len(topics), "partitions": sum(len(t.partitions) for t in topics)}
    for kind in PartitionFilter:
        name = str(kind).replace("-", "_")
        counts[name] = sum(len(t.partitions) for t in chosen(topics, [kind]))
    return counts


def _brokers(sample: Sample, rates: Mapping[TopicPartition, float]) -> list[BrokerLoad]:
    leaders, replicas = Counter[BrokerId](), Counter[BrokerId]()
    records: defaultdict[BrokerId, float] = defaultdict(float)
    for key, p in sample.partitions.items():
        leaders[p.leader] += 1
        replicas.update(p.replicas)
        records[p.leader] += rates.get(key, 0)
    states = {broker.id: broker.state for broker in sample.cluster.brokers}
    known = sorted({*states, *replicas} - {NO_LEADER})
    return [BrokerLoad(id_, states.get(id_, "dead"), leaders[id_], replicas[id_], records[id_]) for id_ in known]
