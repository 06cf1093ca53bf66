"""The cluster metadata from UpdateMetadata requests: live brokers, partitions, topic ids.

Readers hold an immutable snapshot; a request builds the next one and replaces it. It never changes the role of a hosted
partition (R4.11). Source: Kafka ZkMetadataCache.
"""

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from cluster.aio.slices import in_slices
from cluster.model.broker import (
    DEFAULT_LISTENER,
    LEADER_DURING_DELETE,
    NO_CONTROLLER,
    NO_LEADER,
    Broker,
    BrokerId,
    ControllerId,
    Endpoint,
    TopicId,
)
from cluster.model.errors import ErrorCode
from cluster.model.partition import TopicPartition
from cluster.requests.control import UpdateMetadataPartitionState, UpdateMetadataRequest, UpdateMetadataTopicState
from cluster.requests.data import MetadataBroker, MetadataPartition, MetadataTopic

PartitionStates = Mapping[int, UpdateMetadataPartitionState]


class ClusterSnapshot(Struct, frozen=True):
    """The cluster at one moment. `topic_ids` and `topic_names` are inverse; a topic may have no id."""

    brokers: Mapping[BrokerId, Broker] = {}
    topics: Mapping[str, PartitionStates] = {}
    topic_ids: Mapping[str, TopicId] = {}
    topic_names: Mapping[TopicId, str] = {}
    controller_id: ControllerId = NO_CONTROLLER


class MetadataCache:
    """Holds the current snapshot. `listener`: the one that agents and clients connect to."""

    def __init__(self, listener: str = DEFAULT_LISTENER) -> None:
        self.listener = listener
        self.snapshot = ClusterSnapshot()
        self._described: dict[str, MetadataTopic] = {}
        """The topics as clients were told of them last: their bytes are kept as long as they are, and joined to answers
        (R4.13).
        """

    def apply(self, request: UpdateMetadataRequest) -> None:
        """Replace the snapshot (R4.10): brokers completely, partitions merged without comparing epochs."""
        old = self.snapshot
        topics, topic_ids = dict(old.topics), dict(old.topic_ids)
        for topic in request.topic_states:
            _apply_topic(topics, topic_ids, topic)
            self._described.pop(topic.topic_name, None)
        brokers = {broker.id: broker for broker in request.live_brokers}
        if brokers != old.brokers:
            self._described.clear()
        self.snapshot = ClusterSnapshot(
            brokers=brokers,
            topics=topics,
            topic_ids=topic_ids,
            topic_names={topic_id: name for name, topic_id in topic_ids.items()},
            controller_id=request.controller_id if request.controller_id >= 0 else NO_CONTROLLER,
        )

    def is_alive(self, broker: BrokerId) -> bool:
        return broker in self.snapshot.brokers

    def endpoint(self, broker: BrokerId) -> Endpoint | None:
        """The address of a broker; None if it is not live or does not have the listener."""
        record = self.snapshot.brokers.get(broker)
        return None if record is None else record.endpoint(self.listener)

    def racks(self, brokers: Iterable[BrokerId]) -> dict[BrokerId, str | None]:
        """The racks of those of these brokers that are live and that clients can reach."""
        found = ((broker, self.snapshot.brokers.get(broker)) for broker in brokers)
        return {id_: b.rack for id_, b in found if b is not None and b.endpoint(self.listener) is not None}

    def partition_state(self, topic_partition: TopicPartition) -> UpdateMetadataPartitionState | None:
        return self.snapshot.topics.get(topic_partition.topic, {}).get(topic_partition.partition)

    def contains(self, topic_partition: TopicPartition) -> bool:
        return self.partition_state(topic_partition) is not None

    def knows_topic_id(self, topic_id: TopicId) -> bool:
        return topic_id in self.snapshot.topic_names

    def describe_brokers(self) -> tuple[MetadataBroker, ...]:
        """The live brokers that a client can reach, sorted by id."""
        found = [(broker, broker.endpoint(self.listener)) for _, broker in sorted(self.snapshot.brokers.items())]
        return tuple(MetadataBroker(b.id, e.host, e.port, b.rack) for b, e in found if e is not None)

    async def describe_topics(self, names: Sequence[str] | None) -> tuple[MetadataTopic, ...]:
        """The named topics, each once, or all sorted by name; each partition has its own code (R4.13).

        Topics and partitions are those of one moment; whether a broker is alive may change between two slices.
        """
        snapshot = self.snapshot
        wanted = sorted(snapshot.topics) if names is None else dict.fromkeys(names)
        return tuple([await self._describe_topic(snapshot, name) async for name in in_slices(wanted)])

    async def _describe_topic(self, snapshot: ClusterSnapshot, name: str) -> MetadataTopic:
        known = self._described.get(name)
        if known is not None and self.snapshot is snapshot:
            return known
        topic = await self._describe_topic_anew(snapshot, name)
        if self.snapshot is snapshot and name in snapshot.topics:
            self._described[name] = topic
        return topic

    async def _describe_topic_anew(self, snapshot: ClusterSnapshot, name: str) -> MetadataTopic:
        states = snapshot.topics.get(name)
        if states is None:
            return MetadataTopic(name, None, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        partitions = [self._describe_partition(states[index]) async for index in in_slices(sorted(states))]
        return MetadataTopic(name, snapshot.topic_ids.get(name), ErrorCode.NONE, tuple(partitions))

    def _describe_partition(self, state: UpdateMetadataPartitionState) -> MetadataPartition:
        offline = set(state.offline_replicas)
        code = self._leader_code(state.leader)
        return MetadataPartition(
            partition_index=state.partition_index,
            error_code=code,
            # A leader that cannot be reached is not named, so that no client waits for its address.
            leader_id=state.leader if code is ErrorCode.NONE else NO_LEADER,
            leader_epoch=state.leader_epoch,
            replica_nodes=state.replicas,
            isr_nodes=state.isr,
            offline_replicas=tuple(b for b in state.replicas if b in offline or not self.is_alive(b)),
        )

    def _leader_code(self, leader: BrokerId) -> ErrorCode:
        if leader == NO_LEADER or not self.is_alive(leader):
            return ErrorCode.LEADER_NOT_AVAILABLE
        return ErrorCode.NONE if self.endpoint(leader) is not None else ErrorCode.LISTENER_NOT_FOUND


def _apply_topic(
    topics: dict[str, PartitionStates], topic_ids: dict[str, TopicId], topic: UpdateMetadataTopicState
) -> None:
    if topic.topic_id is None:
        topic_ids.pop(topic.topic_name, None)
    else:
        topic_ids[topic.topic_name] = topic.topic_id
    states = dict(topics.get(topic.topic_name, {}))
    for state in topic.partition_states:
        if state.leader == LEADER_DURING_DELETE:
            states.pop(state.partition_index, None)
        else:
            states[state.partition_index] = state
    if states:
        topics[topic.topic_name] = states
    else:
        topics.pop(topic.topic_name, None)
        topic_ids.pop(topic.topic_name, None)
