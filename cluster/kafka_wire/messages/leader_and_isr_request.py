"""LeaderAndIsrRequest, versions 0-7. Made by cluster/kafka_wire/make_messages.py; do not edit."""

from typing import ClassVar

from cluster.model.broker import ZERO_TOPIC_ID, TopicId
from cluster.kafka_wire.message import Message


class LeaderAndIsrPartitionState(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "LeaderAndIsrRequest"

    topic_name: str = ""  # 0-1
    partition_index: int = 0
    controller_epoch: int = 0
    leader: int = 0
    leader_epoch: int = 0
    isr: tuple[int, ...] = ()
    partition_epoch: int = 0
    replicas: tuple[int, ...] = ()
    adding_replicas: tuple[int, ...] = ()  # 3+
    removing_replicas: tuple[int, ...] = ()  # 3+
    is_new: bool = False  # 1+
    leader_recovery_state: int = 0  # 6+


class LeaderAndIsrTopicState(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "LeaderAndIsrRequest"

    topic_name: str = ""  # 2+
    topic_id: TopicId = ZERO_TOPIC_ID  # 5+
    partition_states: tuple[LeaderAndIsrPartitionState, ...] = ()  # 2+


class LeaderAndIsrLiveLeader(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "LeaderAndIsrRequest"

    broker_id: int = 0
    host_name: str = ""
    port: int = 0


class LeaderAndIsrRequest(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "LeaderAndIsrRequest"

    controller_id: int = 0
    is_kraft_controller: bool = False  # 7+
    controller_epoch: int = 0
    broker_epoch: int = -1  # 2+
    type: int = 0  # 5+
    ungrouped_partition_states: tuple[LeaderAndIsrPartitionState, ...] = ()  # 0-1
    topic_states: tuple[LeaderAndIsrTopicState, ...] = ()  # 2+
    live_leaders: tuple[LeaderAndIsrLiveLeader, ...] = ()
