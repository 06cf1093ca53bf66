"""Knows who leads each partition of the topics that a client uses, from the metadata of brokers.

Brokers learn of a change one after the other, so an answer may be older than what is known here: a leadership with a
lower leader epoch never replaces a newer one (KIP-320).
"""

import asyncio
from collections.abc import Sequence
from typing import NamedTuple

from admin.connecting.connection import ClusterConnection
from admin.connecting.node_search import first_answer
from admin.connecting.waiting import together
from admin.producing.missing_topics import missing_topic
from cluster.model import bounds
from cluster.model.broker import NO_LEADER, BrokerId, Endpoint, LeaderEpoch
from cluster.model.errors import ApiError, ErrorCode, PeerUnreachableError
from cluster.requests.data import MetadataPartition, MetadataRequest, MetadataResponse, MetadataTopic
from cluster.requests.topics import DescribeTopicsRequest

_REFRESH_PAUSE_S = 0.1
_ASKED_AGAIN_S = 0.5
"""While the controller does not answer, brokers are asked as often as this."""
_METADATA_TIMEOUT_MS = 5_000
_ADDRESSES_NAMED = 3
_RULES_LAG_S = 1.0
"""A broker may know a new access rule this much later than the controller."""


class LeaderAddress(NamedTuple):
    """Holds the address and leader epoch of a partition's leader."""

    broker: BrokerId
    address: str
    epoch: LeaderEpoch


class Topology:
    """Keeps the leaders of the partitions of the topics in use."""

    def __init__(self, client: ClusterConnection) -> None:
        self.client = client
        self._leaders: dict[str, dict[int, LeaderAddress | None]] = {}
        self._epochs: dict[tuple[str, int], LeaderEpoch] = {}
        self._brokers: list[str] = []
        self._addresses: dict[BrokerId, str] = {}
        self._silent: dict[str, None] = {}
        """Brokers that were asked for metadata, and have not answered since."""
        self._denied: set[str] = set()
        """Topics to which the last broker that was asked saw no right."""
        self._refreshing: dict[str, asyncio.Lock] = {}
        self._generation: dict[str, int] = {}

    async def check_records_are_here(self, kafka_tool: str, topic: str) -> None:
        """Raise ApiError(UNSUPPORTED_VERSION), which names Kafka's own tool, if the brokers are of Apache Kafka."""
        await self._find_brokers()
        if self.client.kafka is not None:
            addresses = ",".join(self._brokers[:_ADDRESSES_NAMED]) or "HOST:PORT"
            command = f"{kafka_tool} --bootstrap-server {addresses} --topic {topic}"
            raise ApiError(ErrorCode.UNSUPPORTED_VERSION, f"the brokers are of Apache Kafka: use its tool, {command}")

    async def partitions(self, topic: str) -> list[int]:
        """The partition numbers of a topic, in order.

        Waits while brokers do not know a topic that the controller knows. Raises ApiError(UNKNOWN_TOPIC_OR_PARTITION)
        for a topic that does not exist, ApiError(TOPIC_AUTHORIZATION_FAILED) without a right to it,
        PeerUnreachableError if no node answers within the client's timeout.
        """
        if topic not in self._leaders:
            limit_s = self.client.limits.left_s
            try:
                with self.client.waiting.named(lambda: self._missing(topic), limit_s):
                    async with asyncio.timeout(limit_s):
                        await self._until_known(topic)
            except TimeoutError:
                within_s = self.client.limits.timeout_s
                why = f"no metadata for topic {topic!r} within {within_s:g} s{self._unanswered}"
                raise self.client.without_controller(within_s) or PeerUnreachableError("brokers", why) from None
        return sorted(self._leaders[topic])

    def _missing(self, topic: str) -> str:
        """The reason why a topic is not known yet, for a notice."""
        if not self.client.has_answered:
            return self.client.no_answer_yet
        return f"no broker has metadata of topic {topic!r} yet{self._unanswered}"

    @property
    def _unanswered(self) -> str:
        """The brokers that have not answered, to follow what is missing."""
        return f": {together(map(self.client.name, self._silent))} not answering" if self._silent else ""

    async def _until_known(self, topic: str) -> None:
        """Ask brokers, and the controller whether the topic exists: it may not answer while some brokers know of it."""
        asserting: asyncio.Task[None] | None = None
        try:
            while True:
                await self.refresh(topic)
                if topic in self._leaders:
                    return
                asserting = asserting or asyncio.create_task(self._assert_exists(topic))
                if (await asyncio.wait({asserting}, timeout=_ASKED_AGAIN_S))[0]:
                    asserting.result()
                    asserting = None
        finally:
            if asserting is not None:
                asserting.cancel()
                await asyncio.gather(asserting, return_exceptions=True)

    def leader(self, topic: str, partition: int) -> LeaderAddress | None:
        """The leader according to the last metadata; None if there is none."""
        return self._leaders.get(topic, {}).get(partition)

    @property
    def brokers(self) -> list[str]:
        """The addresses of the brokers that are known to be alive."""
        return list(self._brokers)

    async def next_broker(self) -> str | None:
        """The address of a live broker, another one each time; None where none is known."""
        await self._find_brokers()
        self._brokers = [*self._brokers[1:], *self._brokers[:1]]
        return self._brokers[-1] if self._brokers else None

    def address(self, broker: BrokerId) -> str | None:
        """The address of a live broker by the last metadata; None for others."""
        return self._addresses.get(broker)

    async def refresh(self, topic: str) -> None:
        """Refresh the metadata from a broker; concurrent calls share one request. On failure the old metadata stays."""
        lock = self._refreshing.setdefault(topic, asyncio.Lock())
        seen = self._generation.get(topic, 0)
        async with lock:
            if self._generation.get(topic, 0) > seen:
                return
            response = await self._ask_any_broker(topic)
            if response is not None:
                self._take(response)
            self._generation[topic] = seen + 1
            # The pause inside the lock bounds how often a cluster without news is asked.
            await asyncio.sleep(_REFRESH_PAUSE_S)

    async def _ask_any_broker(self, topic: str) -> MetadataResponse | None:
        await self._find_brokers()
        asked = self._brokers
        # Rotate, so that a broker with an old picture is not the only one that is asked.
        self._brokers = [*asked[1:], *asked[:1]]

        async def ask(address: str) -> MetadataResponse | None:
            self._silent[address] = None
            try:
                answer = await self.client.metadata(address, MetadataRequest((topic,)), _METADATA_TIMEOUT_MS)
            except PeerUnreachableError:
                # A refresh of another topic, at the same time, may have dropped it as well.
                self._brokers = [known for known in self._brokers if known != address]
                return None
            self._silent.pop(address, None)
            return answer

        return await first_answer(asked, ask)

    async def _find_brokers(self) -> None:
        if not self._brokers:
            self._brokers = await self.client.find_brokers()

    def _take(self, response: MetadataResponse) -> None:
        addresses = {b.node_id: Endpoint(b.host, b.port).address for b in response.brokers}
        if addresses:
            self._addresses = addresses
            self._brokers = [a for a in self._brokers if a in set(addresses.values())]
            self._brokers += [a for a in sorted(addresses.values()) if a not in self._brokers]
        for topic in response.topics:
            if topic.error_code is ErrorCode.TOPIC_AUTHORIZATION_FAILED:
                self._denied.add(topic.name)
            else:
                self._denied.discard(topic.name)
            # Others than these no partition can have, and the partitioner cannot count with.
            partitions = [p for p in topic.partitions if bounds.PARTITION.accepts(p.partition_index)]
            if topic.error_code in (ErrorCode.NONE, ErrorCode.LEADER_NOT_AVAILABLE) and partitions:
                self._take_topic(topic, partitions, addresses)

    def _take_topic(
        self, topic: MetadataTopic, partitions: Sequence[MetadataPartition], addresses: dict[BrokerId, str]
    ) -> None:
        leaders = self._leaders.setdefault(topic.name, {})
        for partition in partitions:
            key = (topic.name, partition.partition_index)
            if partition.leader_epoch < self._epochs.get(key, partition.leader_epoch):
                continue
            self._epochs[key] = partition.leader_epoch
            address = addresses.get(partition.leader_id)
            if partition.leader_id == NO_LEADER or address is None:
                leaders[partition.partition_index] = None
            else:
                leaders[partition.partition_index] = LeaderAddress(partition.leader_id, address, partition.leader_epoch)

    async def _assert_exists(self, topic: str) -> None:
        """Raise the error of a topic of which the controller knows nothing, or to which it sees no right.

        A broker's word for the latter stands where no controller answers this caller: its listener may have no users.
        """
        try:
            async with asyncio.timeout(_RULES_LAG_S if topic in self._denied else None):
                described = await self.client.ask_controller(DescribeTopicsRequest((topic,)))
        except TimeoutError:
            raise missing_topic(topic, ErrorCode.TOPIC_AUTHORIZATION_FAILED) from None
        (result,) = self.client.results_for([f"topic {topic}"], described.topics)
        if result.error_code in (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.TOPIC_AUTHORIZATION_FAILED):
            raise missing_topic(topic, result.error_code)
