"""A synthetic cluster in ZooKeeper: topics and partition states as written by an earlier controller."""

import base64
import random
from collections.abc import Iterator, Sequence
from itertools import chain, islice

from msgspec import Struct

from cluster.aio.windows import in_windows
from cluster.model.broker import (
    INITIAL_LEADER_EPOCH,
    INITIAL_PARTITION_EPOCH,
    BrokerId,
    ControllerEpoch,
    PartitionEpoch,
    TopicId,
)
from cluster.model.partition import LeaderAndIsr, ReplicaAssignment, TopicAssignment, TopicPartition
from cluster.znodes.configs import encode_config
from cluster.znodes.controller import encode_controller_epoch
from cluster.znodes.paths import (
    BROKERS_TOPICS,
    CONTROLLER_EPOCH,
    PERSISTENT_PATHS,
    partition_path,
    partitions_path,
    state_path,
    topic_config_path,
    topic_path,
)
from cluster.znodes.topics import decode_state, decode_topic, encode_state, encode_topic
from cluster.zookeeper.port import Create, Op, Stat, Znode, ZooKeeper

OPS_PER_TRANSACTION = 500
TRANSACTIONS_AT_ONCE = 60
READ_AT_ONCE = 20_000
FORMER_EPOCH = ControllerEpoch(1)
"""The epoch of the earlier controller."""


class Shape(Struct, frozen=True):
    """`topics` topics of `partitions_per_topic` partitions, with `replication_factor` replicas each on `brokers`."""

    topics: int
    partitions_per_topic: int
    replication_factor: int
    brokers: tuple[BrokerId, ...]
    prefix: str = "bench"

    @property
    def partitions(self) -> int:
        return self.topics * self.partitions_per_topic

    def topic(self, index: int) -> str:
        return f"{self.prefix}-{index:05d}"

    def assignment(self, index: int) -> TopicAssignment:
        """Leaders are assigned round robin; followers are shifted so that every pair of brokers shares partitions."""
        partitions = {p: ReplicaAssignment(self._replicas(index, p)) for p in range(self.partitions_per_topic)}
        return TopicAssignment(partitions, _topic_id(f"{self.prefix}-{index}"))

    def _replicas(self, index: int, partition: int) -> tuple[BrokerId, ...]:
        serial = index * self.partitions_per_topic + partition
        count = len(self.brokers)
        first, shift = serial % count, serial // count
        followers = (
            self.brokers[(first + 1 + (shift + step) % (count - 1)) % count]
            for step in range(self.replication_factor - 1)
        )
        return (self.brokers[first], *followers)


class PartitionInZooKeeper(Struct, frozen=True):
    """One partition in ZooKeeper; `leadership` and `stat` are None without a state znode. `is_moving`: it is being
    reassigned.
    """

    replicas: tuple[BrokerId, ...]
    leadership: LeaderAndIsr | None
    stat: Stat | None
    is_moving: bool = False


async def populate(zookeeper: ZooKeeper, shape: Shape) -> None:
    """Create all znodes below an empty chroot. Raises RuntimeError if ZooKeeper refuses."""
    ops: Iterator[Op] = chain(
        (Create(path) for path in _base_paths()),
        (Create(CONTROLLER_EPOCH, encode_controller_epoch(FORMER_EPOCH)),),
        (op for index in range(shape.topics) for op in _topic_znodes(shape, index)),
    )
    transactions = iter(lambda: list(islice(ops, OPS_PER_TRANSACTION)), [])
    # Many at once, but not so many that making them would keep the session from being renewed.
    while together := list(islice(transactions, TRANSACTIONS_AT_ONCE)):
        for results in await zookeeper.multi_many(together):
            if isinstance(results, Exception):
                raise results
            refused = [result for result in results if not result.ok]
            if refused:
                raise RuntimeError(f"ZooKeeper refused to be populated: {refused[0]}")


async def read_partitions(zookeeper: ZooKeeper) -> dict[TopicPartition, PartitionInZooKeeper]:
    """Every partition of every topic."""
    topics = await zookeeper.children(BROKERS_TOPICS) or ()
    znodes = await zookeeper.get_many([topic_path(topic) for topic in topics])
    assigned = {
        TopicPartition(topic, partition): assignment
        for topic, znode in zip(topics, znodes, strict=True)
        if znode is not None
        for partition, assignment in decode_topic(topic, znode.data).partitions.items()
    }

    async def states_of(some: Sequence[TopicPartition]) -> list[Znode | None]:
        return await zookeeper.get_many([state_path(tp) for tp in some])

    found = {}
    async for some, states in in_windows(list(assigned), READ_AT_ONCE, states_of):
        for tp, znode in zip(some, states, strict=True):
            assignment, stat = assigned[tp], None if znode is None else znode.stat
            leadership = None if znode is None else decode_state(tp, znode.data, PartitionEpoch(znode.stat.version))
            found[tp] = PartitionInZooKeeper(assignment.replicas, leadership, stat, assignment.is_being_reassigned)
    return found


def _base_paths() -> list[str]:
    """Parents before children, each once."""
    paths: dict[str, None] = {}
    for path in PERSISTENT_PATHS:
        parts = path.split("/")[1:]
        paths.update(dict.fromkeys("/" + "/".join(parts[: depth + 1]) for depth in range(len(parts))))
    return list(paths)


def _topic_znodes(shape: Shape, index: int) -> Iterator[Op]:
    topic, assignment = shape.topic(index), shape.assignment(index)
    yield Create(topic_config_path(topic), encode_config({}))
    yield Create(topic_path(topic), encode_topic(assignment))
    yield Create(partitions_path(topic))
    for partition, replicas in assignment.partitions.items():
        tp = TopicPartition(topic, partition)
        yield Create(partition_path(tp))
        yield Create(state_path(tp), encode_state(_led_by_the_first(replicas.replicas)))


def _led_by_the_first(replicas: Sequence[BrokerId]) -> LeaderAndIsr:
    return LeaderAndIsr(replicas[0], INITIAL_LEADER_EPOCH, tuple(replicas), FORMER_EPOCH, INITIAL_PARTITION_EPOCH)


def _topic_id(name: str) -> TopicId:
    """A topic id that looks random but is the same in every run; never starts with a dash."""
    text = base64.urlsafe_b64encode(random.Random(name).randbytes(16)).decode().rstrip("=")
    return TopicId("A" + text[1:] if text.startswith("-") else text)
