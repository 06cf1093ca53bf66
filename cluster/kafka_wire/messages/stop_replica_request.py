"""StopReplicaRequest, versions 0-4. Made by cluster/kafka_wire/make_messages.py; do not edit."""

from typing import ClassVar

from cluster.kafka_wire.message import Message


class StopReplicaPartitionV0(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "StopReplicaRequest"

    topic_name: str = ""  # 0
    partition_index: int = 0  # 0


class StopReplicaTopicV1(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "StopReplicaRequest"

    name: str = ""  # 1-2
    partition_indexes: tuple[int, ...] = ()  # 1-2


class StopReplicaPartitionState(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "StopReplicaRequest"

    partition_index: int = 0  # 3+
    leader_epoch: int = -1  # 3+
    delete_partition: bool = False  # 3+


class StopReplicaTopicState(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "StopReplicaRequest"

    topic_name: str = ""  # 3+
    partition_states: tuple[StopReplicaPartitionState, ...] = ()  # 3+


class StopReplicaRequest(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "StopReplicaRequest"

    controller_id: int = 0
    is_kraft_controller: bool = False  # 4+
    controller_epoch: int = 0
    broker_epoch: int = -1  # 1+
    delete_partitions: bool = False  # 0-2
    ungrouped_partitions: tuple[StopReplicaPartitionV0, ...] = ()  # 0
    topics: tuple[StopReplicaTopicV1, ...] = ()  # 1-2
    topic_states: tuple[StopReplicaTopicState, ...] = ()  # 3+
