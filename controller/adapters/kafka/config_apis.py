"""Configs of this controller under its id, which Kafka's clients ask it for as they ask every node.

Configs of topics and of brokers are the brokers' business, and so is AlterConfigs, which KIP-339 has replaced. Source:
Kafka ConfigHelper, ZkAdminManager, KafkaAdminClient.nodeFor.
"""

from typing import Any, Final

from msgspec.structs import replace

from cluster.kafka_wire.conversion import convert
from cluster.kafka_wire.messages import configs as wire_configs
from cluster.kafka_wire.messages.api_keys import ApiKey
from cluster.model.broker import ControllerId
from cluster.model.errors import ApiError
from cluster.requests import configs
from controller.adapters.kafka.conversions import AnsweredApi, each_refused

_BROKER_LOGGER: Final = 8
_STRING: Final = 2
_NAMES: Final = ("resource_type", "resource_name")
_THROTTLES: Final = frozenset(
    {
        "leader.replication.throttled.rate",
        "follower.replication.throttled.rate",
        "replica.alter.log.dirs.io.max.bytes.per.second",
    }
)
"""kafka-reassign-partitions takes these off all nodes; a controller has no replicas, and so never has one."""


def config_apis(controller: ControllerId) -> tuple[AnsweredApi[Any], ...]:
    """The APIs of configs, as far as they are about the controller with this id."""
    own = str(controller)

    def is_own(message: Any) -> bool:
        kinds = (configs.BROKER_RESOURCE, _BROKER_LOGGER)
        return any(r.resource_type in kinds and r.resource_name == own for r in message.resources)

    return (
        AnsweredApi(
            ApiKey.DESCRIBE_CONFIGS,
            configs.DescribeConfigsRequest,
            _description_refused,
            concerns=is_own,
            response=_described,
        ),
        AnsweredApi(
            ApiKey.INCREMENTAL_ALTER_CONFIGS,
            configs.AlterConfigsRequest,
            _alteration_refused,
            concerns=is_own,
            request=_to_alter,
        ),
    )


def _described(
    _: wire_configs.DescribeConfigsRequest, response: configs.DescribeConfigsResponse
) -> wire_configs.DescribeConfigsResponse:
    described = convert(response, wire_configs.DescribeConfigsResponse)
    return replace(described, results=tuple(map(_with_types, described.results)))


def _with_types(result: wire_configs.DescribeConfigsResult) -> wire_configs.DescribeConfigsResult:
    return replace(result, configs=tuple(replace(config, config_type=_STRING) for config in result.configs))


def _description_refused(
    message: wire_configs.DescribeConfigsRequest, error: ApiError
) -> wire_configs.DescribeConfigsResponse:
    results = each_refused(wire_configs.DescribeConfigsResult, message.resources, error, *_NAMES)
    return wire_configs.DescribeConfigsResponse(results=results)


def _to_alter(message: wire_configs.IncrementalAlterConfigsRequest) -> configs.AlterConfigsRequest:
    def without_throttles(
        resource: wire_configs.IncrementalAlterConfigsRequestAlterConfigsResource,
    ) -> wire_configs.IncrementalAlterConfigsRequestAlterConfigsResource:
        kept = (
            config
            for config in resource.configs
            if not (config.config_operation == configs.DELETE_CONFIG and config.name in _THROTTLES)
        )
        return replace(resource, configs=tuple(kept))

    kept = replace(message, resources=tuple(map(without_throttles, message.resources)))
    return convert(kept, configs.AlterConfigsRequest)


def _alteration_refused(
    message: wire_configs.IncrementalAlterConfigsRequest, error: ApiError
) -> wire_configs.IncrementalAlterConfigsResponse:
    responses = each_refused(
        wire_configs.IncrementalAlterConfigsResponseAlterConfigsResourceResponse, message.resources, error, *_NAMES
    )
    return wire_configs.IncrementalAlterConfigsResponse(responses=responses)
