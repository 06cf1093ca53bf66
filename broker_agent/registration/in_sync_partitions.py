"""Which partitions have a broker in sync, by ZooKeeper: asked when a disk of the broker may have been replaced.

Source: klamm.
"""

import structlog

from cluster.model.broker import BrokerId, PartitionEpoch, TopicId
from cluster.model.errors import MalformedZnodeError
from cluster.model.partition import TopicAssignment, TopicPartition
from cluster.znodes.paths import BROKERS_TOPICS, DELETE_TOPICS, state_path, topic_path
from cluster.znodes.topics import decode_state, decode_topic
from cluster.zookeeper.port import ZooKeeper

_log = structlog.stdlib.get_logger()


async def read_in_sync_partitions(zookeeper: ZooKeeper, broker: BrokerId) -> dict[TopicPartition, TopicId | None]:
    """Read the partitions whose ISR has the broker, with their topic ids, but for topics that are to be deleted. What
    is malformed is left out. Raises ZooKeeperError.
    """
    deleted = set(await zookeeper.children(DELETE_TOPICS) or ())
    topics = [topic for topic in await zookeeper.children(BROKERS_TOPICS) or () if topic not in deleted]
    assignments = await _read_assignments(zookeeper, topics)
    replicas: dict[TopicPartition, TopicId | None] = {
        TopicPartition(topic, partition): None if assignment.topic_id is None else TopicId(assignment.topic_id)
        for topic, assignment in assignments.items()
        for partition, replicas in assignment.partitions.items()
        if broker in replicas.replicas
    }
    znodes = await zookeeper.get_many([state_path(tp) for tp in replicas])
    found: dict[TopicPartition, TopicId | None] = {}
    for (tp, topic_id), znode in zip(replicas.items(), znodes, strict=True):
        try:
            state = None if znode is None else decode_state(tp, znode.data, PartitionEpoch(znode.stat.version))
        except MalformedZnodeError as error:
            _log.warning("Partition state is malformed", partition=str(tp), why=str(error))
            continue
        if state is not None and broker in state.isr:
            found[tp] = topic_id
    return found


async def _read_assignments(zookeeper: ZooKeeper, topics: list[str]) -> dict[str, TopicAssignment]:
    found: dict[str, TopicAssignment] = {}
    for topic, znode in zip(topics, await zookeeper.get_many([topic_path(topic) for topic in topics]), strict=True):
        try:
            if znode is not None:
                found[topic] = decode_topic(topic, znode.data)
        except MalformedZnodeError as error:
            _log.warning("Topic is malformed", topic=topic, why=str(error))
    return found
