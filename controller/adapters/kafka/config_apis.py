"""Configs of this controller under its id, which Kafka's clients ask it for as they ask every node.

Configs of topics and of brokers are the brokers' business, and so is AlterConfigs, which KIP-339 has replaced. Source:
Kafka ConfigHelper, ZkAdminManager, KafkaAdminClient.nodeFor.
"""

from typing import Any, Final

from cluster.kafka_wire.api_keys import ApiKey
from cluster.kafka_wire.messages import configs as wire_configs
from cluster.model.broker import ControllerId
from cluster.model.errors import ApiError
from cluster.requests import configs
from controller.adapters.kafka.conversions import Conversion

_BROKER_LOGGER: Final = 8
_STRING: Final = 2
_THROTTLES: Final = frozenset(
    {
        "leader.replication.throttled.rate",
        "follower.replication.throttled.rate",
        "replica.alter.log.dirs.io.max.bytes.per.second",
    }
)
"""kafka-reassign-partitions takes these off all nodes; a controller has no replicas, and so never has one."""


def config_apis(controller: ControllerId) -> tuple[Conversion[Any], ...]:
    """The APIs of configs, as far as they are about the controller with this id."""
    own = str(controller)

    def is_own(message: Any) -> bool:
        kinds = (configs.BROKER_RESOURCE, _BROKER_LOGGER)
        return any(r.resource_type in kinds and r.resource_name == own for r in message.resources)

    return (
        Conversion(ApiKey.DESCRIBE_CONFIGS, _to_describe, _described, _description_refused, is_own),
        Conversion(ApiKey.INCREMENTAL_ALTER_CONFIGS, _to_alter, _altered, _alteration_refused, is_own),
    )


def _to_describe(message: wire_configs.DescribeConfigsRequest) -> configs.DescribeConfigsRequest:
    resources = (
        configs.ConfigResource(r.resource_type, r.resource_name, r.configuration_keys) for r in message.resources
    )
    return configs.DescribeConfigsRequest(tuple(resources))


def _described(
    _: wire_configs.DescribeConfigsRequest, response: configs.DescribeConfigsResponse
) -> wire_configs.DescribeConfigsResponse:
    return wire_configs.DescribeConfigsResponse(
        results=tuple(
            wire_configs.DescribeConfigsResult(
                error_code=result.error_code,
                error_message=result.error_message,
                resource_type=result.resource_type,
                resource_name=result.resource_name,
                configs=tuple(map(_config, result.configs)),
            )
            for result in response.results
        )
    )


def _config(config: configs.DescribedConfig) -> wire_configs.DescribeConfigsResourceResult:
    return wire_configs.DescribeConfigsResourceResult(
        name=config.name,
        value=config.value,
        read_only=config.read_only,
        config_source=config.config_source,
        is_sensitive=config.is_sensitive,
        config_type=_STRING,
        documentation=None,
    )


def _description_refused(
    message: wire_configs.DescribeConfigsRequest, error: ApiError
) -> wire_configs.DescribeConfigsResponse:
    results = (
        configs.DescribeConfigsResult(error.code, error.message, r.resource_type, r.resource_name)
        for r in message.resources
    )
    return _described(message, configs.DescribeConfigsResponse(tuple(results)))


def _to_alter(message: wire_configs.IncrementalAlterConfigsRequest) -> configs.AlterConfigsRequest:
    return configs.AlterConfigsRequest(
        tuple(
            configs.AlterConfigsResource(
                r.resource_type,
                r.resource_name,
                tuple(
                    configs.AlterableConfig(c.name, c.config_operation, c.value)
                    for c in r.configs
                    if not (c.config_operation == configs.DELETE_CONFIG and c.name in _THROTTLES)
                ),
            )
            for r in message.resources
        ),
        validate_only=message.validate_only,
    )


def _altered(
    _: wire_configs.IncrementalAlterConfigsRequest, response: configs.AlterConfigsResponse
) -> wire_configs.IncrementalAlterConfigsResponse:
    return wire_configs.IncrementalAlterConfigsResponse(
        responses=tuple(
            wire_configs.AlterConfigsResourceResponse(
                error_code=r.error_code,
                error_message=r.error_message,
                resource_type=r.resource_type,
                resource_name=r.resource_name,
            )
            for r in response.responses
        )
    )


def _alteration_refused(
    message: wire_configs.IncrementalAlterConfigsRequest, error: ApiError
) -> wire_configs.IncrementalAlterConfigsResponse:
    responses = (
        configs.AlterConfigsResourceResponse(error.code, error.message, r.resource_type, r.resource_name)
        for r in message.resources
    )
    return _altered(message, configs.AlterConfigsResponse(tuple(responses)))
