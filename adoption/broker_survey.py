"""Asks each broker about itself, by Kafka's requests; changes nothing."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeVar

from msgspec.structs import replace

from adoption.broker_access import BrokerAccess
from adoption.survey import BrokerAnswers, SurveyedBroker
from cluster.kafka_wire.authorizer import has_authorizer
from cluster.kafka_wire.connection import KafkaConnection
from cluster.kafka_wire.messages.configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from cluster.kafka_wire.messages.connections import ApiVersionsRequest, ApiVersionsResponse
from cluster.kafka_wire.messages.data import MetadataRequest, MetadataResponse
from cluster.model.broker import Broker, ControllerId, Endpoint
from cluster.model.errors import ClusterError, ErrorCode, PeerUnreachableError, known_code
from cluster.security.acl_numbers import NUMBER_OF_OPERATION
from cluster.security.acls import Operation

_T = TypeVar("_T")
_CLIENT_ID: Final = "klamm-adopt"
_BROKER_RESOURCE: Final = 4
_DEFAULT_SOURCE: Final = 5
_DENIED: Final = (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
# Versions that every broker from 2.4 to 3.9 has.
_API_VERSIONS, _DESCRIBE_CONFIGS, _METADATA, _METADATA_WITH_RIGHTS = 2, 1, 5, 8
GIVE_COMMAND_CONFIG: Final = (
    "name a file with the ssl.* and sasl.* settings of Kafka's tools with --command-config (its security.protocol is "
    "SASL_PLAINTEXT where users may log in without TLS)"
)


async def ask_all(
    brokers: Sequence[SurveyedBroker], access: BrokerAccess, timeout_s: float
) -> tuple[SurveyedBroker, ...]:
    """The brokers with their answers."""
    return tuple(await asyncio.gather(*(_ask(broker.registered, access, timeout_s) for broker in brokers)))


async def obeyed_controllers(
    brokers: Sequence[Broker], access: BrokerAccess, timeout_s: float
) -> dict[int, ControllerId | None]:
    """Broker -> the controller whose metadata it has, -1 for none; None if it does not answer."""
    answers = await asyncio.gather(*(_obeyed(broker, access, timeout_s) for broker in brokers))
    return {broker.id: answer for broker, answer in zip(brokers, answers, strict=True)}


async def connect(endpoint: Endpoint, access: BrokerAccess, timeout_s: float) -> KafkaConnection:
    """A connection to a listener of a broker or candidate. Raises PeerUnreachableError."""
    if not access.reaches(endpoint):
        raise PeerUnreachableError(
            endpoint.address, f"it takes {endpoint.security_protocol} only: {GIVE_COMMAND_CONFIG}"
        )
    tls, login = access.tls if endpoint.has_tls else None, access.login if endpoint.has_sasl else None
    return await KafkaConnection.open(endpoint, client_id=_CLIENT_ID, timeout_s=timeout_s, tls=tls, login=login)


async def api_versions(connection: KafkaConnection, timeout_s: float) -> ApiVersionsResponse:
    """Ask for the other end's versions. Raises PeerUnreachableError."""
    return await connection.call(ApiVersionsRequest(), _API_VERSIONS, ApiVersionsResponse, timeout_s=timeout_s)


async def metadata(connection: KafkaConnection, timeout_s: float) -> MetadataResponse:
    """Brokers and controller, at the addresses of the listener that is asked. Raises PeerUnreachableError."""
    request = MetadataRequest(topics=(), allow_auto_topic_creation=False)
    return await connection.call(request, _METADATA, MetadataResponse, timeout_s=timeout_s)


def usable_endpoints(broker: Broker, access: BrokerAccess) -> list[Endpoint]:
    """The listeners that can be asked, first those where the broker knows who asks: others may learn less."""
    return sorted(filter(access.reaches, broker.endpoints), key=lambda e: (not e.has_sasl, not e.has_tls))


async def _ask(broker: Broker, access: BrokerAccess, timeout_s: float) -> SurveyedBroker:
    async def answers(connection: KafkaConnection) -> BrokerAnswers:
        return await _answers(broker, connection, timeout_s)

    try:
        asked_at, found = await _at_first(broker, access, timeout_s, answers)
    except ClusterError as error:
        return SurveyedBroker(broker, why_not=str(error))
    surveyed = SurveyedBroker(broker, found)
    control = surveyed.control_endpoint
    if control is None or control == asked_at:
        return surveyed
    return replace(surveyed, not_controllable=await _why_not_asked(control, access, timeout_s))


async def _why_not_asked(endpoint: Endpoint, access: BrokerAccess, timeout_s: float) -> str:
    """Say why a listener cannot be used from here; empty if it can."""
    try:
        connection = await connect(endpoint, access, timeout_s)
        try:
            await api_versions(connection, timeout_s)
        finally:
            connection.close()
    except ClusterError as error:
        return str(error)
    return ""


async def _at_first(
    broker: Broker,
    access: BrokerAccess,
    timeout_s: float,
    ask: Callable[[KafkaConnection], Awaitable[_T]],
) -> tuple[Endpoint, _T]:
    """The answer at the first listener that gives one: some addresses are only for clients elsewhere.

    Raises ClusterError with the reason of the first.
    """
    failure: ClusterError | None = None
    for endpoint in usable_endpoints(broker, access):
        try:
            connection = await connect(endpoint, access, timeout_s)
            try:
                return endpoint, await ask(connection)
            finally:
                connection.close()
        except ClusterError as error:
            failure = failure or error
    raise failure or _no_listener(broker, access)


def _no_listener(broker: Broker, access: BrokerAccess) -> ClusterError:
    listeners = ", ".join(f"{e.listener} ({e.security_protocol})" for e in broker.endpoints)
    hint = f": {GIVE_COMMAND_CONFIG}" if any(not access.reaches(e) for e in broker.endpoints) else ""
    return ClusterError(f"no listener can be used from here: {listeners}{hint}")


async def _obeyed(broker: Broker, access: BrokerAccess, timeout_s: float) -> ControllerId | None:
    async def controller(connection: KafkaConnection) -> ControllerId:
        return ControllerId((await metadata(connection, timeout_s)).controller_id)

    try:
        return (await _at_first(broker, access, timeout_s, controller))[1]
    except ClusterError:
        return None


async def _answers(broker: Broker, connection: KafkaConnection, timeout_s: float) -> BrokerAnswers:
    versions = await api_versions(connection, timeout_s)
    is_guarded = await has_authorizer(connection, timeout_s)
    # All of them: which listeners have settings of their own is not known before.
    resource = DescribeConfigsResource(
        resource_type=_BROKER_RESOURCE, resource_name=str(broker.id), configuration_keys=None
    )
    described = await connection.call(
        DescribeConfigsRequest(resources=(resource,)), _DESCRIBE_CONFIGS, DescribeConfigsResponse, timeout_s=timeout_s
    )
    configs = [config for result in described.results for config in result.configs]
    return BrokerAnswers(
        versions={version.api_key: version.max_version for version in versions.api_keys},
        has_authorizer=is_guarded,
        # What is set to nothing is set: an empty value of a listener's own setting comes before that of all.
        configs={config.name: config.value for config in configs if config.value is not None},
        hidden=frozenset(c.name for c in configs if c.is_sensitive and c.config_source != _DEFAULT_SOURCE),
        no_configs=next((why for result in described.results if (why := _why_no_configs(result))), ""),
        controller=ControllerId((await metadata(connection, timeout_s)).controller_id),
        lets_control=await _lets_control(connection, timeout_s) if is_guarded else None,
    )


async def _lets_control(connection: KafkaConnection, timeout_s: float) -> bool:
    """Whether this identity may send what controllers send to brokers. Raises PeerUnreachableError."""
    request = MetadataRequest(topics=(), allow_auto_topic_creation=False, include_cluster_authorized_operations=True)
    answer = await connection.call(request, _METADATA_WITH_RIGHTS, MetadataResponse, timeout_s=timeout_s)
    allowed = answer.cluster_authorized_operations
    return allowed >= 0 and bool(allowed & 1 << NUMBER_OF_OPERATION[Operation.CLUSTER_ACTION])


def _why_no_configs(result: DescribeConfigsResult) -> str:
    code = known_code(result.error_code)
    if code is ErrorCode.NONE:
        return ""
    if code in _DENIED:
        return "the right DescribeConfigs on the cluster is missing"
    return f"DescribeConfigs is answered with {code.name}"
