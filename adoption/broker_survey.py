"""Asks each broker about itself, by Kafka's requests; changes nothing."""

import asyncio
import ssl
from collections.abc import Sequence
from typing import Final

from msgspec.structs import replace

from adoption.survey import BrokerAnswers, SurveyedBroker
from cluster.broker import Broker, ControllerId, Endpoint
from cluster.errors import ClusterError
from cluster.kafka_wire.authorizer import has_authorizer
from cluster.kafka_wire.connection import KafkaConnection
from cluster.kafka_wire.messages.api_versions_request import ApiVersionsRequest
from cluster.kafka_wire.messages.api_versions_response import ApiVersionsResponse
from cluster.kafka_wire.messages.describe_configs_request import DescribeConfigsRequest, DescribeConfigsResource
from cluster.kafka_wire.messages.describe_configs_response import DescribeConfigsResponse
from cluster.kafka_wire.messages.metadata_request import MetadataRequest
from cluster.kafka_wire.messages.metadata_response import MetadataResponse

CONFIGS: Final = (
    "inter.broker.protocol.version",
    "inter.broker.listener.name",
    "control.plane.listener.name",
    "security.inter.broker.protocol",
    "ssl.client.auth",
    "authorizer.class.name",
    "zookeeper.metadata.migration.enable",
    "zookeeper.connect",
    "zookeeper.set.acl",
    "auto.create.topics.enable",
)
"""What of a broker's settings matters."""
_CLIENT_ID: Final = "klamm-adopt"
_BROKER_RESOURCE: Final = 4
# Versions that every broker from 2.4 to 3.9 has.
_API_VERSIONS, _DESCRIBE_CONFIGS, _METADATA = 2, 1, 5


async def ask_all(
    brokers: Sequence[SurveyedBroker], tls: ssl.SSLContext | None, timeout_s: float
) -> tuple[SurveyedBroker, ...]:
    """The brokers with their answers."""
    return tuple(await asyncio.gather(*(_ask(broker.registered, tls, timeout_s) for broker in brokers)))


async def obeyed_controllers(
    brokers: Sequence[Broker], tls: ssl.SSLContext | None, timeout_s: float
) -> dict[int, ControllerId | None]:
    """Broker -> the controller whose metadata it has, -1 for none; None if it does not answer."""
    answers = await asyncio.gather(*(_obeyed(broker, tls, timeout_s) for broker in brokers))
    return {broker.id: answer for broker, answer in zip(brokers, answers, strict=True)}


async def _ask(broker: Broker, tls: ssl.SSLContext | None, timeout_s: float) -> SurveyedBroker:
    endpoint = reachable_endpoint(broker, has_tls=tls is not None)
    if endpoint is None:
        listeners = ", ".join(f"{e.listener} ({e.security_protocol})" for e in broker.endpoints)
        return SurveyedBroker(broker, why_not=f"no listener can be used from here: {listeners}")
    try:
        connection = await _open(endpoint, tls, timeout_s)
        try:
            return SurveyedBroker(broker, await _answers(broker, connection, timeout_s))
        finally:
            connection.close()
    except ClusterError as error:
        return SurveyedBroker(broker, why_not=str(error))


async def _obeyed(broker: Broker, tls: ssl.SSLContext | None, timeout_s: float) -> ControllerId | None:
    endpoint = reachable_endpoint(broker, has_tls=tls is not None)
    if endpoint is None:
        return None
    try:
        connection = await _open(endpoint, tls, timeout_s)
        try:
            return await _controller(connection, timeout_s)
        finally:
            connection.close()
    except ClusterError:
        return None


def reachable_endpoint(broker: Broker, *, has_tls: bool) -> Endpoint | None:
    """The first listener without authentication by SASL, without TLS if there is such a one."""
    usable = ("PLAINTEXT", "SSL") if has_tls else ("PLAINTEXT",)
    found = [e for protocol in usable for e in broker.endpoints if e.security_protocol == protocol]
    return found[0] if found else None


async def _open(endpoint: Endpoint, tls: ssl.SSLContext | None, timeout_s: float) -> KafkaConnection:
    context = tls if endpoint.security_protocol == "SSL" else None
    return await KafkaConnection.open(endpoint, client_id=_CLIENT_ID, timeout_s=timeout_s, tls=context)


async def _answers(broker: Broker, connection: KafkaConnection, timeout_s: float) -> BrokerAnswers:
    versions = await connection.call(ApiVersionsRequest(), _API_VERSIONS, ApiVersionsResponse, timeout_s=timeout_s)
    is_guarded = await has_authorizer(connection, timeout_s)
    resource = DescribeConfigsResource(
        resource_type=_BROKER_RESOURCE, resource_name=str(broker.id), configuration_keys=CONFIGS
    )
    described = await connection.call(
        DescribeConfigsRequest(resources=(resource,)), _DESCRIBE_CONFIGS, DescribeConfigsResponse, timeout_s=timeout_s
    )
    answers = BrokerAnswers(
        versions={version.api_key: version.max_version for version in versions.api_keys},
        has_authorizer=is_guarded,
        configs={config.name: config.value or "" for result in described.results for config in result.configs},
    )
    return replace(answers, controller=await _controller(connection, timeout_s))


async def _controller(connection: KafkaConnection, timeout_s: float) -> ControllerId:
    request = MetadataRequest(topics=(), allow_auto_topic_creation=False)
    answer = await connection.call(request, _METADATA, MetadataResponse, timeout_s=timeout_s)
    return ControllerId(answer.controller_id)
