"""The transactions that write a recovery: for each topic, units of operations that are atomic and in order.

A topic znode is written together with the states of the partitions that it gains, so that no controller ever finds a
new partition without its leader: it would elect any live replica. A partition epoch is the data version of the state
znode and rises by writing: the state is written as often as needed, each time with the same content.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from cluster.model.partition import ReplicaAssignment, TopicAssignment
from cluster.znodes.configs import encode_config
from cluster.znodes.paths import (
    delete_topic_path,
    partition_path,
    partitions_path,
    state_path,
    topic_config_path,
    topic_path,
)
from cluster.znodes.topics import encode_state, encode_topic
from cluster.zookeeper.port import Create, Delete, Op, SetData
from controller.decisions.recovery.plan import PartitionRecovery, TopicRecovery

_PARTITIONS_PER_UNIT: Final = 50
_WRITES_PER_UNIT: Final = 200
Versions = Mapping[str, int]
"""Path -> data version, of the paths that exist."""
Unit = tuple[Op, ...]


def paths_of(topic: TopicRecovery) -> list[str]:
    """Paths whose existence and version `units_of` has to know."""
    fixed = (topic_path, topic_config_path, partitions_path, delete_topic_path)
    of_partitions = (path(p.topic_partition) for p in topic.partitions for path in (partition_path, state_path))
    return [*(path(topic.topic) for path in fixed), *of_partitions]


def units_of(topic: TopicRecovery, versions: Versions) -> list[Unit]:
    """List all writes of one topic, to be applied in this order."""
    units: list[Unit] = []
    if topic.before == topic.after and not topic.withdraws_deletion:
        units += [tuple(_first_write(partition, versions)) for partition in topic.partitions]
    else:
        units += _topic_units(topic, versions)
    for partition in topic.partitions:
        units += _further_writes(partition, versions)
    return units


def _topic_units(topic: TopicRecovery, versions: Versions) -> Iterator[Unit]:
    """Units of some partitions each, the topic znode growing with them; the first one prepares its parents."""
    path, version = topic_path(topic.topic), versions.get(topic_path(topic.topic))
    waiting = {p.topic_partition.partition for p in topic.partitions}
    for number, chunk in enumerate(_chunks(topic.partitions)):
        waiting -= {p.topic_partition.partition for p in chunk}
        content = encode_topic(TopicAssignment(_grown(topic, waiting), topic.after.topic_id))
        ops: list[Op] = []
        if version is None:
            ops += [] if topic_config_path(topic.topic) in versions else [_empty_config(topic.topic)]
            ops.append(Create(path, content))
            version = 0
        else:
            ops.append(SetData(path, content, version))
            version += 1
        if number == 0:
            ops += [] if partitions_path(topic.topic) in versions else [Create(partitions_path(topic.topic))]
            marker = delete_topic_path(topic.topic)
            ops += [Delete(marker)] if topic.withdraws_deletion and marker in versions else []
        yield (*ops, *(op for partition in chunk for op in _first_write(partition, versions)))


def _chunks(partitions: Sequence[PartitionRecovery]) -> Iterator[tuple[PartitionRecovery, ...]]:
    if not partitions:
        yield ()
    for start in range(0, len(partitions), _PARTITIONS_PER_UNIT):
        yield tuple(partitions[start : start + _PARTITIONS_PER_UNIT])


def _grown(topic: TopicRecovery, waiting: set[int]) -> dict[int, ReplicaAssignment]:
    """The assignments while these partitions still wait to be written."""
    before = topic.before
    is_same = before is not None and before.topic_id in (None, topic.after.topic_id)
    earlier = before.partitions if before is not None and is_same else {}
    return {
        number: earlier[number] if number in waiting else assignment
        for number, assignment in topic.after.partitions.items()
        if number not in waiting or number in earlier
    }


def _empty_config(topic: str) -> Op:
    # Brokers do not report overrides: the operator has to set them again.
    return Create(topic_config_path(topic), encode_config({}))


def _first_write(partition: PartitionRecovery, versions: Versions) -> Iterator[Op]:
    tp, content = partition.topic_partition, encode_state(partition.after)
    version = versions.get(state_path(tp))
    if version is not None:
        yield SetData(state_path(tp), content, version)
        return
    if partition_path(tp) not in versions:
        yield Create(partition_path(tp))
    yield Create(state_path(tp), content)


def _further_writes(partition: PartitionRecovery, versions: Versions) -> Iterator[Unit]:
    """The writes after the first one, until the version is the partition epoch."""
    path, content = state_path(partition.topic_partition), encode_state(partition.after)
    reached = versions.get(path, -1) + 1
    for start in range(reached, partition.after.partition_epoch, _WRITES_PER_UNIT):
        end = min(start + _WRITES_PER_UNIT, partition.after.partition_epoch)
        yield tuple(SetData(path, content, version) for version in range(start, end))
