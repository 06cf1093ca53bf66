"""What the znodes of topics and partitions say, read past every session as only a simulation can."""

from cluster.broker import PartitionEpoch
from cluster.partition import Leadership, ReplicaAssignment, TopicPartition
from cluster.znodes import BROKERS_TOPICS, decode_state, decode_topic, state_path, topic_path
from simulator.znode_tree import ZnodeTree


def topics(tree: ZnodeTree) -> tuple[str, ...]:
    return tree.children(BROKERS_TOPICS) or ()


def assignments_of_topic(tree: ZnodeTree, topic: str) -> dict[int, ReplicaAssignment]:
    """Partition number -> assignment; empty where there is no such topic."""
    node = tree.get(topic_path(topic))
    return {} if node is None else decode_topic(topic, node.data).partitions


def assignments(tree: ZnodeTree) -> dict[TopicPartition, ReplicaAssignment]:
    return {TopicPartition(t, p): a for t in topics(tree) for p, a in assignments_of_topic(tree, t).items()}


def partition_state(tree: ZnodeTree, tp: TopicPartition) -> Leadership | None:
    """None where the partition has no state node, or one that cannot be read."""
    node = tree.get(state_path(tp))
    return None if node is None else decode_state(tp, node.data, PartitionEpoch(node.stat.version))


def partition_states(tree: ZnodeTree) -> dict[TopicPartition, Leadership]:
    """Every partition state in ZooKeeper."""
    found = ((tp, partition_state(tree, tp)) for tp in assignments(tree))
    return {tp: state for tp, state in found if state is not None}
