"""ConsumerGroupDescribeResponse, versions 0. Made by cluster/kafka_wire/make_messages.py; do not edit."""

from typing import ClassVar

from cluster.model.broker import ZERO_TOPIC_ID, TopicId
from cluster.kafka_wire.message import Message


class TopicPartitions(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "ConsumerGroupDescribeResponse"

    topic_id: TopicId = ZERO_TOPIC_ID
    topic_name: str = ""
    partitions: tuple[int, ...] = ()


class Assignment(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "ConsumerGroupDescribeResponse"

    topic_partitions: tuple[TopicPartitions, ...] = ()


class Member(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "ConsumerGroupDescribeResponse"

    member_id: str = ""
    instance_id: str | None = None
    rack_id: str | None = None
    member_epoch: int = 0
    client_id: str = ""
    client_host: str = ""
    subscribed_topic_names: tuple[str, ...] = ()
    subscribed_topic_regex: str | None = None
    assignment: Assignment = Assignment()
    target_assignment: Assignment = Assignment()


class DescribedGroup(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "ConsumerGroupDescribeResponse"

    error_code: int = 0
    error_message: str | None = None
    group_id: str = ""
    group_state: str = ""
    group_epoch: int = 0
    assignment_epoch: int = 0
    assignor_name: str = ""
    members: tuple[Member, ...] = ()
    authorized_operations: int = -2147483648


class ConsumerGroupDescribeResponse(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "ConsumerGroupDescribeResponse"

    throttle_time_ms: int = 0
    groups: tuple[DescribedGroup, ...] = ()
