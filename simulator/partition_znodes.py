"""Reads topic and partition znodes directly from the simulated server, without a session."""

from cluster.model.broker import PartitionEpoch
from cluster.model.partition import LeaderAndIsr, ReplicaAssignment, TopicPartition
from cluster.znodes.paths import BROKERS_TOPICS, state_path, topic_path
from cluster.znodes.topics import decode_state, decode_topic
from cluster.zookeeper.znode_tree import ZnodeTree


def topics(tree: ZnodeTree) -> tuple[str, ...]:
    """List the topics in a tree."""
    return tree.children(BROKERS_TOPICS) or ()


def assignments_of_topic(tree: ZnodeTree, topic: str) -> dict[int, ReplicaAssignment]:
    """Partition number -> assignment; empty if there is no such topic."""
    znode = tree.get(topic_path(topic))
    return {} if znode is None else decode_topic(topic, znode.data).partitions


def assignments(tree: ZnodeTree) -> dict[TopicPartition, ReplicaAssignment]:
    """Map each partition in a tree to its assignment."""
    return {TopicPartition(t, p): a for t in topics(tree) for p, a in assignments_of_topic(tree, t).items()}


def partition_state(tree: ZnodeTree, tp: TopicPartition) -> LeaderAndIsr | None:
    """The state of a partition; None if its znode is missing or malformed."""
    znode = tree.get(state_path(tp))
    return None if znode is None else decode_state(tp, znode.data, PartitionEpoch(znode.stat.version))


def partition_states(tree: ZnodeTree) -> dict[TopicPartition, LeaderAndIsr]:
    """Every partition state in ZooKeeper."""
    found = ((tp, partition_state(tree, tp)) for tp in assignments(tree))
    return {tp: state for tp, state in found if state is not None}
