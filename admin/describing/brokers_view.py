"""Describes topics and brokers from the metadata of brokers, for when no controller answers.

Clients of Kafka read the same metadata. It is as the last UpdateMetadata left it: leaders and ISRs may have changed
since, and it has no configs, deletions, partition epochs or broker epochs.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, Final, TypeVar

from admin.connecting.client import AdminClient
from cluster.model.broker import NO_CONTROLLER, UNKNOWN_BROKER_EPOCH, ControllerEpoch, Endpoint, PartitionEpoch
from cluster.model.errors import ApiError, ErrorCode, PeerUnreachableError
from cluster.requests.cluster import DescribeClusterResponse, DescribedBroker
from cluster.requests.data import MetadataRequest, MetadataResponse, MetadataTopic
from cluster.requests.plans import DescribedPartition
from cluster.requests.topics import DescribedTopic, ListedTopic

_T = TypeVar("_T")

_CONTROLLER_FIRST_S: Final = 10.0
"""Longer than most elections of a controller take."""
_METADATA_TIMEOUT_MS: Final = 1_000
UNKNOWN_PARTITION_EPOCH: Final = PartitionEpoch(-1)


async def of_controller_or_brokers(
    client: AdminClient,
    ask: Coroutine[Any, Any, _T],
    names: Sequence[str] | None,
    of_metadata: Callable[[MetadataResponse], _T],
) -> tuple[_T, str]:
    """The answer of the active controller; after ten seconds, or half the timeout, that of the brokers, and why it is
    theirs, else "". `names`: the topics to ask them for, None: all. Raises as `ask` does if no broker answers either.
    """

    async def ask_active() -> _T:
        # One that has lost ZooKeeper would answer from its memory what another controller may have changed.
        try:
            await client.describe_controller()
        except BaseException:
            ask.close()
            raise
        return await ask

    async def ask_brokers(_: float) -> _T | None:
        metadata = await _metadata(client, names)
        return None if metadata is None else of_metadata(metadata)

    answer, is_of_brokers = await answer_or_later(client, ask_active(), ask_brokers, "the brokers are asked")
    return answer, (client.why_no_controller if is_of_brokers else "")


async def answer_or_later(
    client: AdminClient, ask: Coroutine[Any, Any, _T], instead: Callable[[float], Awaitable[_T | None]], what: str
) -> tuple[_T, bool]:
    """Return the answer or, after ten seconds or half the timeout, the result of `instead`, and whether it is that.

    `instead` gets the seconds that have passed; if its result is None, the answer is awaited until the timeout.
    `what` says in the notice of a long wait what will happen after that time.
    """
    first_s = min(_CONTROLLER_FIRST_S, client.limits.timeout_s / 2)
    asking = asyncio.create_task(ask)
    try:
        with client.waiting.falling_back(first_s, what):
            done, _ = await asyncio.wait({asking}, timeout=first_s)
            if not done and (found := await instead(first_s)) is not None:
                return found, True
        return await asking, False
    finally:
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)


def listed_topics(metadata: MetadataResponse) -> list[ListedTopic]:
    return [
        ListedTopic(
            topic.name,
            topic.topic_id,
            len(topic.partitions),
            max((len(p.replica_nodes) for p in topic.partitions), default=0),
        )
        for topic in sorted(metadata.topics, key=lambda t: t.name)
    ]


def described_topics(metadata: MetadataResponse) -> list[DescribedTopic]:
    return list(map(_described, metadata.topics))


def described_cluster(metadata: MetadataResponse) -> DescribeClusterResponse:
    brokers = (
        DescribedBroker(b.node_id, Endpoint(b.host, b.port), UNKNOWN_BROKER_EPOCH, b.rack, "unknown")
        for b in metadata.brokers
    )
    return DescribeClusterResponse(metadata.cluster_id, NO_CONTROLLER, "", ControllerEpoch(0), tuple(brokers))


def _described(topic: MetadataTopic) -> DescribedTopic:
    if topic.error_code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        return DescribedTopic(topic.name, topic.error_code)
    partitions = (
        DescribedPartition(
            p.partition_index,
            p.leader_id,
            p.leader_epoch,
            UNKNOWN_PARTITION_EPOCH,
            p.isr_nodes,
            p.replica_nodes,
            offline_replicas=p.offline_replicas,
        )
        for p in topic.partitions
    )
    return DescribedTopic(topic.name, ErrorCode.NONE, topic.topic_id, partitions=tuple(partitions))


async def _metadata(client: AdminClient, names: Sequence[str] | None) -> MetadataResponse | None:
    """Return the metadata of the first broker that has any; None if no known address is a broker's."""

    async def of(address: str) -> MetadataResponse | None:
        with contextlib.suppress(ApiError, PeerUnreachableError):
            request = MetadataRequest(None if names is None else tuple(names))
            found = await client.metadata(address, request, min(_METADATA_TIMEOUT_MS, client.limits.left_ms))
            return found if found.brokers else None
        return None

    asking = [asyncio.create_task(of(address)) for address in client.bootstrap]
    try:
        for answer in asyncio.as_completed(asking):
            if (found := await answer) is not None:
                return found
        return None
    finally:
        for task in asking:
            task.cancel()
        await asyncio.gather(*asking, return_exceptions=True)
