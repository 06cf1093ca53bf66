"""Configs where the brokers are of Apache Kafka: theirs are valid, and those of brokers are theirs alone."""

from typing import Any

import pytest

from cluster.model.errors import ErrorCode
from cluster.model.protocol_version import ProtocolVersion
from cluster.requests.configs import (
    BROKER_RESOURCE,
    SET_CONFIG,
    TOPIC_RESOURCE,
    AlterableConfig,
    AlterConfigsRequest,
    AlterConfigsResource,
    ConfigResource,
    DescribeConfigsRequest,
)
from cluster.requests.topics import CreateTopicsRequest, NewTopic
from tests.controllers.worlds import run_virtually, running_cluster

KAFKA: dict[str, Any] = {"governs_kafka": True, "takeover": "atomic"}


@pytest.mark.rule("D-90", "TP-1")
@pytest.mark.parametrize(
    ("release", "key", "value", "why"),
    [
        ((3, 9), "cleanup.policy", "compact", ""),
        ((3, 9), "remote.storage.enable", "false", ""),
        ((2, 4), "remote.storage.enable", "false", "Unknown topic config name: remote.storage.enable"),
        ((2, 4), "message.format.version", "2.4", ""),
        (
            (3, 9),
            "compression.type",
            "rar",
            "Invalid value rar for configuration compression.type: String must be one of: "
            "uncompressed, zstd, lz4, snappy, gzip, producer",
        ),
    ],
)
def test_what_the_release_of_the_brokers_accepts_is_valid(
    release: tuple[int, int], key: str, value: str, why: str
) -> None:
    async def main() -> None:
        _, c = await running_cluster(1, protocol_version=ProtocolVersion(release), **KAFKA)
        (created,) = (await c.ask(CreateTopicsRequest((NewTopic("t", 1, 1, configs={key: value}),)))).topics
        await c.ask(CreateTopicsRequest((NewTopic("u", 1, 1),)))
        alteration = AlterConfigsResource(TOPIC_RESOURCE, "u", (AlterableConfig(key, SET_CONFIG, value),))
        (altered,) = (await c.ask(AlterConfigsRequest((alteration,)))).responses
        expected = ErrorCode.INVALID_CONFIG if why else ErrorCode.NONE
        assert (created.error_code, created.error_message) == (expected, why)
        assert (altered.error_code, altered.error_message or "") == (expected, why)
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("D-90")
def test_configs_of_brokers_are_the_business_of_kafkas_tools() -> None:
    async def main() -> None:
        _, c = await running_cluster(1, **KAFKA)
        await c.ask(CreateTopicsRequest((NewTopic("t", 1, 1, configs={"cleanup.policy": "compact"}),)))
        asked = (
            ConfigResource(BROKER_RESOURCE, "1"),
            ConfigResource(BROKER_RESOURCE, "1001", ("log.level",)),
            ConfigResource(TOPIC_RESOURCE, "t"),
        )
        of_broker, own, of_topic = (await c.ask(DescribeConfigsRequest(asked))).results
        assert of_broker.error_code is ErrorCode.INVALID_REQUEST
        assert "kafka-configs.sh" in of_broker.error_message
        assert [config.name for config in own.configs] == ["log.level"]
        assert [(config.name, config.value) for config in of_topic.configs] == [("cleanup.policy", "compact")]
        await c.stop()

    run_virtually(main)
