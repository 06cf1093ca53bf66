"""Reads and writes ZooKeeper for the active controller: typed, batched, and fenced by its epoch.

Reads never take a round trip per partition. A malformed znode is logged with its path and content, kept as a finding
and treated as missing, so that one of them cannot prevent every controller from becoming active. Source: Kafka
KafkaZkClient.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import aclosing
from typing import Final

import structlog

from cluster.aio.windows import in_windows
from cluster.model import bounds
from cluster.model.bounds import why_not
from cluster.model.broker import BrokerEpoch, BrokerId, ControllerId, PartitionEpoch, RegisteredBroker, ZkVersion
from cluster.model.errors import MalformedZnodeError, ZooKeeperError
from cluster.model.partition import LeaderAndIsr, TopicAssignment, TopicPartition
from cluster.znodes.configs import ConfigEntity, encode_config
from cluster.znodes.paths import (
    BROKERS_IDS,
    BROKERS_TOPICS,
    CONTROLLER,
    CONTROLLER_LOG,
    CONTROLLERS_IDS,
    DELETE_TOPICS,
    KNOWN_CONTROLLERS,
    STATE_LOG,
    broker_of_name,
    broker_path,
    controller_registration_path,
    delete_topic_path,
    partition_of_name,
    partition_path,
    partitions_path,
    state_path,
    topic_config_path,
    topic_path,
)
from cluster.znodes.topics import decode_state, decode_topic, encode_state, encode_topic
from cluster.zookeeper.configs import read_configs
from cluster.zookeeper.port import Create, Delete, Op, SetData, Znode, ZooKeeper
from cluster.zookeeper.recipes import watched_children
from cluster.zookeeper.registrations import controller_addresses, decode_registration, ids_of_brokers, why_unfit
from controller.fenced_writes import Conflict, FencedWriter, Outcome, Written
from controller.malformed_znodes import MalformedZnodes

_READ_TOGETHER: Final = 10_000
"""States: ten requests of ZooKeeper, as many as are in flight."""
_DELETION_ROUNDS: Final = 3
"""How often a topic's znodes are listed again if new ones appear while they are being deleted."""
_log = structlog.stdlib.get_logger()


class ControllerStore:
    """Reads and fenced writes of one active controller."""

    def __init__(self, zookeeper: ZooKeeper, writer: FencedWriter) -> None:
        self._zookeeper = zookeeper
        self._writer = writer
        self.malformed = MalformedZnodes()
        """Znodes that were malformed when last read; each is watched, so that its repair is noticed."""
        self.unreadable_brokers: dict[BrokerId, BrokerEpoch] = {}
        """Brokers whose registration was malformed when last read, and the epoch of that registration."""

    # Brokers

    async def read_brokers(self) -> list[RegisteredBroker]:
        """Read all registered brokers, sorted by id; arms watches on the list and on each registration."""
        names = await self._children(BROKERS_IDS)
        ids = {broker: name for name in names if (broker := broker_of_name(name)) is not None}
        self.malformed.name_children(BROKERS_IDS, names, [*ids.values()], why_not(bounds.BROKER_ID, "its name"))
        self.unreadable_brokers = {b: epoch for b, epoch in self.unreadable_brokers.items() if b in ids}
        return list((await self._read_registrations(sorted(ids))).values())

    async def read_broker(self, broker: BrokerId) -> RegisteredBroker | None:
        """Read one broker registration and arm a watch. None if it is missing or malformed."""
        return (await self._read_registrations([broker])).get(broker)

    async def registered_epoch(self, broker: BrokerId) -> BrokerEpoch | None:
        """The broker epoch of the present registration, None if there is none. Arms no watch: anybody may ask."""
        stat = await self._zookeeper.exists(broker_path(broker))
        return None if stat is None else BrokerEpoch(stat.czxid)

    async def _read_registrations(self, ids: Sequence[BrokerId]) -> dict[BrokerId, RegisteredBroker]:
        paths = [broker_path(broker) for broker in ids]
        znodes = await self._zookeeper.get_many(paths, watch=True)
        found = self.malformed.decode_each(ids, paths, znodes, decode_registration)
        for broker, znode in zip(ids, znodes, strict=True):
            if znode is None or broker in found:
                self.unreadable_brokers.pop(broker, None)
            else:
                self.unreadable_brokers[broker] = BrokerEpoch(znode.stat.czxid)
        return found

    async def list_controllers(self) -> tuple[frozenset[BrokerId], frozenset[BrokerId]]:
        """Ids of the registered candidates, and of all that have a state-change log; arms a watch on the former.

        Without those of brokers, under which somebody started a candidate.
        """
        logs = await self._zookeeper.children(STATE_LOG) or ()
        former = (node.removeprefix(CONTROLLER_LOG) for node in logs if node.startswith(CONTROLLER_LOG))
        registered = _ids(await self._children(CONTROLLERS_IDS))
        taken = await ids_of_brokers(self._zookeeper, registered)
        return registered - taken, _ids(former) - taken

    async def read_controllers(self) -> tuple[frozenset[BrokerId], frozenset[BrokerId]]:
        """Ids of the candidates that stand for election, and of all that ever did. Arms no watch."""
        names, known = await self._zookeeper.children_many([CONTROLLERS_IDS, KNOWN_CONTROLLERS])
        candidates = [ControllerId(number) for number in _ids(names)]
        znodes = await self._zookeeper.get_many([controller_registration_path(id_) for id_ in candidates])
        pairs = zip(candidates, znodes, strict=True)
        fit = (BrokerId(id_) for id_, znode in pairs if znode is not None and not why_unfit(id_, znode))
        return frozenset(fit), _ids(known)

    async def controller_addresses(self) -> frozenset[str]:
        """The addresses at which controllers listen, for gRPC or for Kafka's brokers and clients."""
        return await controller_addresses(self._zookeeper)

    # Topics

    async def list_topics(self) -> tuple[str, ...]:
        """Names of all topics; arms a watch on the list. Children that no topic can be called are skipped."""
        names = await self._children(BROKERS_TOPICS)
        topics = tuple(name for name in names if bounds.TOPIC_NAME.accepts(name))
        self.malformed.name_children(BROKERS_TOPICS, names, topics, f"the name {bounds.TOPIC_NAME.rule}")
        return topics

    async def read_topics(self, topics: Sequence[str]) -> dict[str, TopicAssignment]:
        """Read topic znodes and arm a watch on each; missing and malformed ones are omitted."""
        paths = [topic_path(topic) for topic in topics]
        znodes = await self._zookeeper.get_many(paths, watch=True)
        return self.malformed.decode_each(topics, paths, znodes, _assignment)

    async def read_topics_to_change(self, topics: Sequence[str]) -> dict[str, tuple[TopicAssignment, ZkVersion]]:
        """Read topic znodes with their data versions; missing and malformed ones are omitted."""
        paths = [topic_path(topic) for topic in topics]
        znodes = await self._zookeeper.get_many(paths)
        return self.malformed.decode_each(
            topics, paths, znodes, lambda t, znode: (_assignment(t, znode), ZkVersion(znode.stat.version))
        )

    async def creations(self, topics: Sequence[str]) -> dict[str, int]:
        """The zxid that created each topic's znode, and the highest there can be for those without one."""
        znodes = await self._zookeeper.get_many([topic_path(topic) for topic in topics])
        return {
            topic: bounds.INT64_MAX if znode is None else znode.stat.czxid
            for topic, znode in zip(topics, znodes, strict=True)
        }

    async def change_topics(self, topics: Mapping[str, tuple[TopicAssignment, ZkVersion]]) -> dict[str, Outcome]:
        """Overwrite topic znodes that are still at the given version; Conflict for the others."""
        units = [(SetData(topic_path(t), encode_topic(a), version),) for t, (a, version) in topics.items()]
        return dict(zip(topics, await self._writer.write(units), strict=True))

    async def write_topics(self, topics: Mapping[str, TopicAssignment]) -> dict[str, Outcome]:
        """Overwrite topic znodes, whatever their version (ZK-23)."""
        units = [(SetData(topic_path(t), encode_topic(assignment)),) for t, assignment in topics.items()]
        return dict(zip(topics, await self._writer.write(units), strict=True))

    async def create_topics(
        self, topics: Mapping[str, tuple[TopicAssignment, Mapping[str, str]]]
    ) -> dict[str, Outcome]:
        """Create each topic's config and topic znode in one transaction; a Conflict means that the topic exists."""
        outcomes = await self._create_topics(topics, settings_exist=False)
        # The config of a deleted topic, or one written before its topic was created, is replaced.
        left_over = {t: topics[t] for t, o in outcomes.items() if isinstance(o, Conflict) and o.position == 0}
        if left_over:
            outcomes |= await self._create_topics(left_over, settings_exist=True)
        return outcomes

    async def _create_topics(
        self, topics: Mapping[str, tuple[TopicAssignment, Mapping[str, str]]], *, settings_exist: bool
    ) -> dict[str, Outcome]:
        units: list[tuple[Op, Op]] = []
        for topic, (assignment, configs) in topics.items():
            path, body = topic_config_path(topic), encode_config(configs)
            settings: Op = SetData(path, body) if settings_exist else Create(path, body)
            units.append((settings, Create(topic_path(topic), encode_topic(assignment))))
        return dict(zip(topics, await self._writer.write(units), strict=True))

    async def read_topic_configs(self, topics: Sequence[str]) -> dict[str, dict[str, str] | MalformedZnodeError]:
        """Overrides of each topic, empty if there are none; the error if the config znode is malformed."""
        entities = [ConfigEntity("topics", topic) for topic in topics]
        found = await read_configs(self._zookeeper, entities)
        errors = [config for config in found.values() if isinstance(config, MalformedZnodeError)]
        self.malformed.examined([entity.path for entity in entities], errors)
        return {e.name: c if isinstance(c, MalformedZnodeError) else c.overrides for e, c in found.items()}

    async def marked_for_deletion(self, topics: Sequence[str]) -> set[str]:
        """Read which of these topics are marked for deletion."""
        znodes = await self._zookeeper.get_many([delete_topic_path(topic) for topic in topics])
        return {topic for topic, znode in zip(topics, znodes, strict=True) if znode is not None}

    async def list_deletion_markers(self) -> tuple[str, ...]:
        """Topics marked for deletion; arms a watch on the list."""
        return await self._children(DELETE_TOPICS)

    async def mark_for_deletion(self, topics: Sequence[str]) -> dict[str, Outcome]:
        """Create deletion markers; a Conflict means that the topic is marked already."""
        return dict(
            zip(topics, await self._writer.write([(Create(delete_topic_path(t)),) for t in topics]), strict=True)
        )

    async def delete_markers(self, topics: Collection[str]) -> None:
        """Delete the marks that ask for the deletion of these topics."""
        await self._writer.write([(Delete(delete_topic_path(topic)),) for topic in topics])

    async def delete_topics(self, topics: Collection[str]) -> list[str]:
        """Delete topic znodes with their children, then configs, then markers; returns the deleted topics (TD-15).

        The markers are deleted last, so that the next controller can finish a partial deletion (INV-9). A topic remains
        if somebody keeps adding znodes to it.
        """
        gone: list[str] = []
        left = list(topics)
        for _ in range(_DELETION_ROUNDS):
            deleted = await self._delete_trees([topic_path(topic) for topic in left])
            gone += [topic for topic, done in zip(left, deleted, strict=True) if done]
            left = [topic for topic, done in zip(left, deleted, strict=True) if not done]
            if not left:
                break
        if left:
            _log.error("Deleting topic znodes failed", topics=left)
        await self._delete_trees([topic_config_path(topic) for topic in gone])
        await self.delete_markers(gone)
        return gone

    async def _delete_trees(self, roots: Sequence[str]) -> list[bool]:
        """Delete znodes with all children, bottom up; per root whether it was deleted (ZC-8)."""
        levels: list[list[str]] = []
        paths = list(roots)
        while paths:
            listed = dict(zip(paths, await self._zookeeper.children_many(paths), strict=True))
            # Deleting znodes known to be missing would only split transactions.
            levels.append([path for path in paths if listed[path] is not None])
            paths = [f"{path}/{name}" for path in levels[-1] for name in listed[path] or ()]
        deleted: dict[str, Outcome] = {}
        for level in reversed(levels):
            outcomes = await self._writer.write([(Delete(path),) for path in level])
            deleted = dict(zip(level, outcomes, strict=True))
        return [root not in deleted or isinstance(deleted[root], Written) for root in roots]

    # Partition states

    async def read_states(
        self, partitions: Sequence[TopicPartition], *, watch: bool = False
    ) -> dict[TopicPartition, LeaderAndIsr]:
        """Leadership of the partitions that have a valid state znode; `watch` arms a watch on each."""

        async def read(some: Sequence[TopicPartition]) -> tuple[list[str], list[Znode | None]]:
            paths = [state_path(tp) for tp in some]
            return paths, await self._zookeeper.get_many(paths, watch=watch)

        found: dict[TopicPartition, LeaderAndIsr] = {}
        async with aclosing(in_windows(partitions, _READ_TOGETHER, read)) as windows:
            async for some, (paths, znodes) in windows:
                found |= self.malformed.decode_each(some, paths, znodes, _leadership)
        if not watch and self.malformed:
            malformed = [tp for tp in partitions if state_path(tp) in self.malformed]
            if malformed:
                # Again, with a watch: it may be repaired meanwhile, and nothing else would notice.
                found |= await self.read_states(malformed, watch=True)
        return found

    async def write_states(self, leaderships: Mapping[TopicPartition, LeaderAndIsr]) -> dict[TopicPartition, Outcome]:
        """Write each state if its znode is still at the partition epoch before `leadership.partition_epoch`."""
        # Version -1 would match any: an existing state has at least epoch 0, its successor 1.
        assert all(leadership.partition_epoch > 0 for leadership in leaderships.values()), "0 is for created states"
        units = (
            (SetData(state_path(tp), encode_state(leadership), leadership.partition_epoch - 1),)
            for tp, leadership in leaderships.items()
        )
        return dict(zip(leaderships, await self._writer.write(units), strict=True))

    async def create_states(self, leaderships: Mapping[TopicPartition, LeaderAndIsr]) -> dict[TopicPartition, Outcome]:
        """Create state znodes and their missing parents; a Conflict means that there is a state already.

        One small round creates `/partitions` per topic; then each partition is a unit of its znode and its state. If
        the former exists, from an interrupted creation, only the state is created.
        """
        topics = dict.fromkeys(tp.topic for tp in leaderships)
        await self._writer.write([(Create(partitions_path(topic)),) for topic in topics])
        units = ((Create(partition_path(tp)), _creation(tp, state)) for tp, state in leaderships.items())
        outcomes = dict(zip(leaderships, await self._writer.write(units), strict=True))
        halfway = [tp for tp, o in outcomes.items() if isinstance(o, Conflict) and o.position == 0]
        if halfway:
            again = await self._writer.write([(_creation(tp, leaderships[tp]),) for tp in halfway])
            outcomes.update(zip(halfway, again, strict=True))
        return outcomes

    async def existing_partitions(self, topic: str) -> set[int]:
        """Numbers of the partitions that have a znode below the topic."""
        names = (await self._zookeeper.children_many([partitions_path(topic)]))[0] or ()
        return {number for name in names if (number := partition_of_name(name)) is not None}

    # Notifications and other znodes

    async def list_paths(self, parent: str) -> tuple[str, ...]:
        """Paths of all children; arms a watch on the list."""
        return tuple(f"{parent}/{name}" for name in await self._children(parent))

    async def read_children(self, parent: str) -> dict[str, bytes | None]:
        """Path -> content of all children, None for those deleted meanwhile; arms a watch on the list."""
        paths = [f"{parent}/{name}" for name in await self._children(parent)]
        znodes = await self._zookeeper.get_many(paths)
        return {path: None if znode is None else znode.data for path, znode in zip(paths, znodes, strict=True)}

    async def delete_znodes(self, paths: Collection[str]) -> None:
        """Delete these znodes, if they are there."""
        await self._writer.write([(Delete(path),) for path in paths])

    async def _children(self, parent: str) -> tuple[str, ...]:
        return await watched_children(self._zookeeper, parent) or ()

    async def read_znode(self, path: str) -> bytes | None:
        """Read the data of a znode; None if it is missing."""
        znode = await self._zookeeper.get(path)
        return None if znode is None else znode.data

    # /controller

    async def delete_controller_znode(self) -> None:
        """Delete `/controller`. Raises ControllerMovedError if another controller was elected (EL-12)."""
        (outcome,) = await self._writer.write([(Delete(CONTROLLER),)])
        if not isinstance(outcome, Written):
            raise ZooKeeperError(f"{CONTROLLER} cannot be deleted: {outcome}")


def _ids(names: Iterable[str] | None) -> frozenset[BrokerId]:
    return frozenset(number for name in names or () if (number := broker_of_name(name)) is not None)


def _creation(tp: TopicPartition, leadership: LeaderAndIsr) -> Create:
    return Create(state_path(tp), encode_state(leadership))


def _assignment(topic: str, znode: Znode) -> TopicAssignment:
    return decode_topic(topic, znode.data)


def _leadership(tp: TopicPartition, znode: Znode) -> LeaderAndIsr:
    leadership = decode_state(tp, znode.data, PartitionEpoch(znode.stat.version))
    if leadership is None:
        raise MalformedZnodeError(state_path(tp), znode.data, "not JSON")
    return leadership
