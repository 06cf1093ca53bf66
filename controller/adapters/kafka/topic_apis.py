"""CreateTopics, DeleteTopics and CreatePartitions of Kafka's clients.

Source: Kafka KafkaApis.handleCreateTopicsRequest, handleDeleteTopicsRequest, handleCreatePartitionsRequest.
"""

from collections import Counter
from collections.abc import Iterable
from typing import Any, Final

from msgspec.structs import replace

from cluster.kafka_wire.conversion import convert
from cluster.kafka_wire.messages import topics as wire_topics
from cluster.kafka_wire.messages.api_keys import ApiKey
from cluster.model.errors import ApiError, ErrorCode
from cluster.requests import topics
from controller.adapters.kafka.conversions import AnsweredApi, each_refused

_TOPIC_CONFIG: Final = 1


def _new_topics(message: wire_topics.CreateTopicsRequest) -> topics.CreateTopicsRequest:
    consistent = tuple(topic for topic in message.topics if _contradiction(topic) is None)
    return convert(replace(message, topics=consistent), topics.CreateTopicsRequest)


def _contradiction(topic: wire_topics.CreatableTopic) -> str | None:
    """Say what a request of the controller cannot express: values given twice, and configs without a value."""
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
    return wire_topics.CreateTopicsResponse(topics=(*handled, *refused), throttle_time_ms=response.throttle_time_ms)


def _creation_result(
    result: topics.CreatableTopicResult, configs: tuple[wire_topics.CreatableTopicConfig, ...]
) -> wire_topics.CreatableTopicResult:
    described = tuple(
        wire_topics.CreatableTopicConfigs(name=config.name, value=config.value, config_source=_TOPIC_CONFIG)
        for config in configs
    )
    is_created = result.error_code is ErrorCode.NONE
    return convert(result, wire_topics.CreatableTopicResult, configs=described if is_created else None)


def _creation_refused(message: wire_topics.CreateTopicsRequest, error: ApiError) -> wire_topics.CreateTopicsResponse:
    results = each_refused(wire_topics.CreatableTopicResult, _by_name(message.topics), error, "name")
    return wire_topics.CreateTopicsResponse(topics=tuple(replace(result, configs=None) for result in results))


def _by_name(named: Iterable[Any]) -> Iterable[Any]:
    """The topics, each name once."""
    return {topic.name: topic for topic in named}.values()


def _as_states(message: wire_topics.DeleteTopicsRequest) -> wire_topics.DeleteTopicsRequest:
    """The request as the newest versions have it, which name topics by id too."""
    by_name = (wire_topics.DeleteTopicState(name=name) for name in message.topic_names)
    return replace(message, topics=(*by_name, *message.topics))


def _deletion_refused(message: wire_topics.DeleteTopicsRequest, error: ApiError) -> wire_topics.DeleteTopicsResponse:
    states = _as_states(message).topics
    refused = each_refused(wire_topics.DeletableTopicResult, states, error, "name", "topic_id")
    return wire_topics.DeleteTopicsResponse(responses=refused)


def _expansion_refused(
    message: wire_topics.CreatePartitionsRequest, error: ApiError
) -> wire_topics.CreatePartitionsResponse:
    refused = each_refused(wire_topics.CreatePartitionsTopicResult, _by_name(message.topics), error, "name")
    return wire_topics.CreatePartitionsResponse(results=refused)


TOPIC_APIS: Final[tuple[AnsweredApi[Any], ...]] = (
    AnsweredApi(
        ApiKey.CREATE_TOPICS, topics.CreateTopicsRequest, _creation_refused, request=_new_topics, response=_created
    ),
    AnsweredApi(
        ApiKey.DELETE_TOPICS,
        topics.DeleteTopicsRequest,
        _deletion_refused,
        request=lambda message: convert(_as_states(message), topics.DeleteTopicsRequest),
    ),
    AnsweredApi(ApiKey.CREATE_PARTITIONS, topics.CreatePartitionsRequest, _expansion_refused),
)
