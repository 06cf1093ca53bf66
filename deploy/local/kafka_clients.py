"""What is asked of Kafka brokers on this machine: how each of them sees the cluster, and a few requests."""

import asyncio
import ssl
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from msgspec import Struct

from cluster.kafka_wire.connection import KafkaConnection
from cluster.kafka_wire.messages.data import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponsePartition,
)
from cluster.kafka_wire.messages.partitions import ElectLeadersRequest, ElectLeadersResponse
from cluster.kafka_wire.messages.topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from cluster.model.broker import Endpoint
from cluster.model.errors import PeerUnreachableError
from cluster.requests.data import MetadataPartition

# What all versions of brokers from 2.4 on answer.
METADATA, CREATE_TOPICS, ELECT_LEADERS = 7, 4, 1
DEADLINE_S: Final = 600.0
_POLL_MIN_S: Final = 0.05


class View(Struct, frozen=True):
    """The answer of one broker: the ids of those that it knows, and the partitions of the topics asked for."""

    brokers: frozenset[int]
    controller: int
    partitions: tuple[MetadataResponsePartition | MetadataPartition, ...]

    def led_by(self, broker: int) -> int:
        return sum(partition.leader_id == broker for partition in self.partitions)


async def connect(address: str, timeout_s: float = 10.0, tls: ssl.SSLContext | None = None) -> KafkaConnection:
    """Connect to `address`, HOST:PORT as everywhere here; `tls` None: without TLS. Raises PeerUnreachableError."""
    host, _, port = address.rpartition(":")
    endpoint = Endpoint(host, int(port), "PLAINTEXT" if tls is None else "SSL")
    return await KafkaConnection.open(endpoint, client_id="klamm", timeout_s=timeout_s, tls=tls)


async def view(address: str, topics: Iterable[str], tls: ssl.SSLContext | None = None) -> View:
    """Ask a broker for its view. Raises PeerUnreachableError."""
    connection = await connect(address, tls=tls)
    try:
        return await _view(connection, topics)
    finally:
        connection.close()


async def _view(connection: KafkaConnection, topics: Iterable[str]) -> View:
    request = MetadataRequest(
        topics=tuple(MetadataRequestTopic(name=topic) for topic in topics), allow_auto_topic_creation=False
    )
    answer = await connection.call(request, METADATA, MetadataResponse, timeout_s=DEADLINE_S)
    partitions = tuple(partition for topic in answer.topics for partition in topic.partitions)
    return View(frozenset(broker.node_id for broker in answer.brokers), answer.controller_id, partitions)


async def until_all_see(
    addresses: Iterable[str], topics: Sequence[str], holds: Callable[[View], bool], tls: ssl.SSLContext | None = None
) -> float:
    """Wait until all these brokers see it; the result is when the last did, in s since the Unix epoch. They are asked
    in turn.

    The pause between two questions is twice as long as an answer took. Raises TimeoutError.
    """
    async with asyncio.timeout(DEADLINE_S):
        for address in addresses:
            await _until_it_sees(address, topics, holds, tls)
    return time.time()


async def _until_it_sees(
    address: str, topics: Sequence[str], holds: Callable[[View], bool], tls: ssl.SSLContext | None
) -> None:
    connection: KafkaConnection | None = None
    while True:
        asked = time.monotonic()
        try:
            connection = await connect(address, tls=tls) if connection is None else connection
            if holds(await _view(connection, topics)):
                connection.close()
                return
        except PeerUnreachableError:
            connection = None
        await asyncio.sleep(max(_POLL_MIN_S, 2 * (time.monotonic() - asked)))


async def create_topics(
    address: str,
    sizes: Mapping[str, int],
    replicas: int,
    timeout_s: float = DEADLINE_S,
    tls: ssl.SSLContext | None = None,
) -> list[int]:
    """Create topics in one request; the result has the error code of each topic. Raises PeerUnreachableError."""
    topics = tuple(
        CreatableTopic(name=name, num_partitions=size, replication_factor=replicas) for name, size in sizes.items()
    )
    request = CreateTopicsRequest(topics=topics, timeout_ms=round(timeout_s * 1000))
    connection = await connect(address, tls=tls)
    try:
        answer = await connection.call(request, CREATE_TOPICS, CreateTopicsResponse, timeout_s=timeout_s + 30)
    finally:
        connection.close()
    return [topic.error_code for topic in answer.topics]


async def elect_preferred(address: str) -> int:
    """Elect the preferred leader of every partition; the result is the error code of the whole."""
    request = ElectLeadersRequest(topic_partitions=None, timeout_ms=round(DEADLINE_S * 1000))
    connection = await connect(address)
    try:
        answer = await connection.call(request, ELECT_LEADERS, ElectLeadersResponse, timeout_s=DEADLINE_S)
    finally:
        connection.close()
    return answer.error_code


async def until_created(addresses: Sequence[str], prefix: str, tls: ssl.SSLContext | None = None) -> float:
    """Try to create a topic of one partition, each time another, until somebody does; when that was."""
    async with asyncio.timeout(DEADLINE_S):
        attempt = 0
        while True:
            for address in addresses:
                attempt += 1
                try:
                    if await create_topics(address, {f"{prefix}-{attempt}": 1}, 1, 1.0, tls) == [0]:
                        return time.time()
                except PeerUnreachableError:
                    continue
            await asyncio.sleep(_POLL_MIN_S)
