"""klamm's values as Kafka's messages and back: what is derived from the names of fields, and what is refused."""

import re
from typing import Annotated

import pytest
from msgspec import Struct

from cluster.kafka_wire.conversion import conversion, convert
from cluster.kafka_wire.messages import brokers, data, topics
from cluster.kafka_wire.messages.configs import DescribeConfigsResult
from cluster.model.annotations import KafkaName
from cluster.model.broker import ZERO_TOPIC_ID, BrokerId, TopicId
from cluster.model.errors import ErrorCode
from cluster.requests.agents import AlterPartitionResponse, AlterPartitionResult
from cluster.requests.data import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsResponse, MetadataResponse
from cluster.requests.topics import CreatableTopicResult, CreateTopicsRequest, NewTopic

T_ID = TopicId("kJ3vFxuZS_OMRGEsrLmIsg")


def test_partitions_with_their_topics_are_topics_with_partitions_in_the_order_of_the_first() -> None:
    asked = tuple(ListOffsetsPartition(topic, partition, -1) for topic, partition in (("b", 1), ("a", 0), ("b", 0)))
    message = convert(ListOffsetsRequest(BrokerId(-1), asked), data.ListOffsetsRequest)
    assert [(t.name, [p.partition_index for p in t.partitions]) for t in message.topics] == [("b", [1, 0]), ("a", [0])]


def test_topics_with_partitions_are_partitions_with_their_topics() -> None:
    parts = tuple(data.ListOffsetsPartitionResponse(partition_index=p, error_code=3, offset=9) for p in (1, 0))
    answer = data.ListOffsetsResponse(topics=(data.ListOffsetsTopicResponse(name="a", partitions=parts),))
    response = convert(answer, ListOffsetsResponse)
    assert [(r.topic, r.partition, r.offset) for r in response.partitions] == [("a", 1, 9), ("a", 0, 9)]
    assert response.partitions[0].error_code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize(("topic_id", "sent"), [(None, ZERO_TOPIC_ID), (T_ID, T_ID)])
def test_an_absent_topic_id_is_the_zero_one(topic_id: TopicId | None, sent: TopicId) -> None:
    results = (AlterPartitionResult("t", topic_id, 0, ErrorCode.NONE),)
    message = convert(AlterPartitionResponse(ErrorCode.NONE, results), brokers.AlterPartitionResponse)
    assert message.topics[0].topic_id == sent
    topic = data.MetadataResponseTopic(name=None, topic_id=sent)
    response = convert(data.MetadataResponse(topics=(topic,), cluster_id=None), MetadataResponse)
    assert (response.cluster_id, response.topics[0].name, response.topics[0].topic_id) == ("", "", topic_id)


def test_an_empty_text_is_null_and_a_list_of_pairs_is_a_map() -> None:
    assert convert(CreatableTopicResult("t", ErrorCode.NONE), topics.CreatableTopicResult).error_message is None
    placed = (topics.CreatableReplicaAssignment(partition_index=3, broker_ids=(1, 2)),)
    configs = (topics.CreatableTopicConfig(name="retention.ms", value="5"),)
    message = topics.CreateTopicsRequest(topics=(topics.CreatableTopic(name="t", assignments=placed, configs=configs),))
    (topic,) = convert(message, CreateTopicsRequest).topics
    assert topic == NewTopic("t", 0, 0, {3: (BrokerId(1), BrokerId(2))}, {"retention.ms": "5"})
    assert convert(topic, topics.CreatableTopic) == message.topics[0]


def test_what_only_kafka_has_is_null_where_it_may_be() -> None:
    class Named(Struct):
        who: Annotated[str, KafkaName("resource_name")]

    assert convert(Named("x"), DescribeConfigsResult) == DescribeConfigsResult(resource_name="x", error_message=None)
    assert convert(Named("x"), DescribeConfigsResult, error_message="why").error_message == "why"


def test_a_field_that_must_have_a_value_has_a_counterpart() -> None:
    class Unknown(Struct):
        something: int

    with pytest.raises(AssertionError, match=re.escape("HeartbeatLike.something has nothing to be made of")):
        conversion(data.ListOffsetsRequest, type("HeartbeatLike", (Unknown,), {}))
    with pytest.raises(AssertionError, match=re.escape("ListOffsetsRequest has no room for ['something'] of Unknown")):
        conversion(Unknown, data.ListOffsetsRequest)
