"""CreateTopics, DeleteTopics and CreatePartitions of Kafka's clients.

Source: Kafka KafkaApis.handleCreateTopicsRequest, handleDeleteTopicsRequest, handleCreatePartitionsRequest.
"""

from collections import Counter
from typing import Any, Final

from cluster.kafka_wire.api_keys import ApiKey
from cluster.kafka_wire.messages import topics as wire_topics
from cluster.model.broker import BrokerId
from cluster.model.errors import ApiError, ErrorCode
from cluster.requests import topics
from controller.adapters.kafka.conversions import Conversion, topic_id_or_none, topic_id_or_zero

_TOPIC_CONFIG: Final = 1


def _new_topics(message: wire_topics.CreateTopicsRequest) -> topics.CreateTopicsRequest:
    return topics.CreateTopicsRequest(
        tuple(_new_topic(topic) for topic in message.topics if _contradiction(topic) is None),
        message.timeout_ms,
        validate_only=message.validate_only,
    )


def _new_topic(topic: wire_topics.CreatableTopic) -> topics.NewTopic:
    return topics.NewTopic(
        topic.name,
        topic.num_partitions,
        topic.replication_factor,
        {a.partition_index: tuple(map(BrokerId, a.broker_ids)) for a in topic.assignments},
        {config.name: config.value for config in topic.configs if config.value is not None},
    )


def _contradiction(topic: wire_topics.CreatableTopic) -> str | None:
    """What a request of the controller has no form for: values given twice, and configs without a value."""
    for field, values in (
        ("assignments.partition_index", [a.partition_index for a in topic.assignments]),
        ("configs.name", [config.name for config in topic.configs]),
    ):
        twice = [value for value, count in Counter[Any](values).items() if count > 1]
        if twice:
            return f"{field}: {twice[0]} is given twice"
    empty = next((config.name for config in topic.configs if config.value is None), None)
    return None if empty is None else f"configs.{empty}: the value is null; a topic is created without the key instead"


def _created(
    message: wire_topics.CreateTopicsRequest, response: topics.CreateTopicsResponse
) -> wire_topics.CreateTopicsResponse:
    configs = {topic.name: topic.configs for topic in message.topics}
    refused = [
        wire_topics.CreatableTopicResult(
            name=topic.name, error_code=ErrorCode.INVALID_REQUEST, error_message=why, configs=None
        )
        for topic in message.topics
        if (why := _contradiction(topic)) is not None
    ]
    handled = [_creation_result(result, configs.get(result.name, ())) for result in response.topics]
    return wire_topics.CreateTopicsResponse(topics=(*handled, *refused))


def _creation_result(
    result: topics.CreatableTopicResult, configs: tuple[wire_topics.CreatableTopicConfig, ...]
) -> wire_topics.CreatableTopicResult:
    described = tuple(
        wire_topics.CreatableTopicConfigs(name=config.name, value=config.value, config_source=_TOPIC_CONFIG)
        for config in configs
    )
    return wire_topics.CreatableTopicResult(
        name=result.name,
        topic_id=topic_id_or_zero(result.topic_id),
        error_code=result.error_code,
        error_message=result.error_message or None,
        num_partitions=result.num_partitions,
        replication_factor=result.replication_factor,
        configs=described if result.error_code is ErrorCode.NONE else None,
    )


def _creation_refused(message: wire_topics.CreateTopicsRequest, error: ApiError) -> wire_topics.CreateTopicsResponse:
    return wire_topics.CreateTopicsResponse(
        topics=tuple(
            wire_topics.CreatableTopicResult(
                name=name, error_code=error.code, error_message=error.message, configs=None
            )
            for name in dict.fromkeys(topic.name for topic in message.topics)
        )
    )


def _topics_to_delete(message: wire_topics.DeleteTopicsRequest) -> topics.DeleteTopicsRequest:
    by_name = tuple(topics.TopicToDelete(name) for name in message.topic_names)
    named_or_by_id = tuple(topics.TopicToDelete(t.name, topic_id_or_none(t.topic_id)) for t in message.topics)
    return topics.DeleteTopicsRequest(by_name + named_or_by_id, message.timeout_ms)


def _deleted(
    _: wire_topics.DeleteTopicsRequest, response: topics.DeleteTopicsResponse
) -> wire_topics.DeleteTopicsResponse:
    return wire_topics.DeleteTopicsResponse(
        responses=tuple(
            wire_topics.DeletableTopicResult(
                name=result.name,
                topic_id=topic_id_or_zero(result.topic_id),
                error_code=result.error_code,
                error_message=result.error_message,
            )
            for result in response.responses
        )
    )


def _deletion_refused(message: wire_topics.DeleteTopicsRequest, error: ApiError) -> wire_topics.DeleteTopicsResponse:
    by_name = [wire_topics.DeleteTopicState(name=name) for name in message.topic_names]
    return wire_topics.DeleteTopicsResponse(
        responses=tuple(
            wire_topics.DeletableTopicResult(
                name=topic.name, topic_id=topic.topic_id, error_code=error.code, error_message=error.message
            )
            for topic in (*by_name, *message.topics)
        )
    )


def _new_partitions(message: wire_topics.CreatePartitionsRequest) -> topics.CreatePartitionsRequest:
    return topics.CreatePartitionsRequest(
        tuple(
            topics.NewPartitions(
                topic.name,
                topic.count,
                None
                if topic.assignments is None
                else tuple(
                    topics.NewPartitionsAssignment(tuple(map(BrokerId, a.broker_ids))) for a in topic.assignments
                ),
            )
            for topic in message.topics
        ),
        message.timeout_ms,
        validate_only=message.validate_only,
    )


def _expanded(
    _: wire_topics.CreatePartitionsRequest, response: topics.CreatePartitionsResponse
) -> wire_topics.CreatePartitionsResponse:
    return wire_topics.CreatePartitionsResponse(
        results=tuple(
            wire_topics.CreatePartitionsTopicResult(
                name=result.name, error_code=result.error_code, error_message=result.error_message
            )
            for result in response.results
        )
    )


def _expansion_refused(
    message: wire_topics.CreatePartitionsRequest, error: ApiError
) -> wire_topics.CreatePartitionsResponse:
    names = dict.fromkeys(topic.name for topic in message.topics)
    results = (topics.CreatePartitionsResult(name, error.code, error.message) for name in names)
    return _expanded(message, topics.CreatePartitionsResponse(tuple(results)))


TOPIC_APIS: Final[tuple[Conversion[Any], ...]] = (
    Conversion(ApiKey.CREATE_TOPICS, _new_topics, _created, _creation_refused),
    Conversion(ApiKey.DELETE_TOPICS, _topics_to_delete, _deleted, _deletion_refused),
    Conversion(ApiKey.CREATE_PARTITIONS, _new_partitions, _expanded, _expansion_refused),
)
