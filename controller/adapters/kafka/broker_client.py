"""The controller's `BrokerClient` for brokers of Apache Kafka: one ordered connection for each broker."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Final

from cluster.config.broker_logins import BrokerLogins
from cluster.config.settings import Settings
from cluster.kafka_wire.connection import KafkaConnection
from cluster.kafka_wire.messages.connections import ApiVersionsRequest, ApiVersionsResponse
from cluster.model.broker import Broker, BrokerId, Endpoint, TopicId
from cluster.model.errors import ApiError, ErrorCode, PeerRefusesError, PeerUnreachableError
from cluster.requests import control
from cluster.requests.recovery import DescribeReplicasResponse
from cluster.sasl.clients import ReadCredentials
from cluster.tls.live import LiveContexts
from controller.adapters.kafka.authorizers import Authorizers
from controller.adapters.kafka.control_messages import ControlMessages, answer_type, response_of
from controller.adapters.kafka.topic_ids import cached_topic_ids, check_topic_ids
from controller.kafka_configs.tables import release_of
from controller.topic_id_questions import TopicIdAnswer, TopicIdQuestion

_ASKED_VERSION: Final = 0
_NOT_AUTHORIZED: Final = (
    "its authorizer refuses the controller's requests (CLUSTER_AUTHORIZATION_FAILED): give the controllers the "
    "identity of the brokers, or name their principal in super.users of the brokers"
)


class KafkaBrokerClient:
    """Implements controller.ports.BrokerClient and AnswersTopicIds.

    Listener: RQ-30; timeouts: RQ-32; versions: D-81; refusals: D-111.

    `controller`: see ControlMessages. `tls`: for brokers whose listener has it. `authorizers`: is told of each broker.
    """

    def __init__(
        self, settings: Settings, client_id: str, controller: Broker, tls: LiveContexts, authorizers: Authorizers
    ) -> None:
        self._client_id = client_id
        self._protocol = settings.inter_broker_protocol_version
        self._messages = ControlMessages(settings.inter_broker_protocol_version, controller)
        self._listeners = settings.listener_names
        self._connect_timeout_s = (
            min(settings.socket_connection_setup_timeout_ms, settings.controller_socket_timeout_ms) / 1000
        )
        self._timeout_s = settings.request_timeout_ms / 1000
        self._tls, self._logins = tls, BrokerLogins(settings)
        self._authorizers = authorizers
        self._connections: dict[BrokerId, KafkaConnection] = {}
        self._releases: dict[BrokerId, str] = {}
        """Of the brokers that are connected, or were when they were sent something last."""

    async def send(self, broker: Broker, request: control.ControlRequest) -> control.ControlResponse:
        message, version = self._messages.message(request)
        connection = await self._connection(broker)
        answer = await connection.call(message, version, answer_type(request), timeout_s=self._timeout_s)
        response = response_of(request, answer)
        if response.error_code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
            # Nothing of it was carried out: once it is allowed, the broker has to hear it, in order.
            raise PeerRefusesError(connection.address, response.error_code, _NOT_AUTHORIZED)
        return response

    async def describe_replicas(self, broker: Broker, *, recovers: bool) -> DescribeReplicasResponse:
        raise ApiError(
            ErrorCode.UNSUPPORTED_VERSION,
            f"broker {broker.id} is of Apache Kafka and cannot name its replicas: nothing can be recovered from it",
        )

    async def cached_topic_ids(self, broker: Broker, topics: Sequence[str]) -> dict[str, TopicId]:
        async with self._connection_aside(broker) as connection:
            return await cached_topic_ids(connection, topics, timeout_s=self._timeout_s)

    async def check_topic_ids(
        self, broker: Broker, question: TopicIdQuestion, cached: Mapping[str, TopicId]
    ) -> TopicIdAnswer:
        version = self._messages.versions.leader_and_isr
        async with self._connection_aside(broker) as connection:
            return await check_topic_ids(connection, question, cached, version, timeout_s=self._timeout_s)

    def oldest_release(self) -> str | None:
        return min(self._releases.values(), key=lambda release: tuple(map(int, release.split("."))), default=None)

    def brokers_with_authorizer(self) -> frozenset[BrokerId]:
        return self._authorizers.guarded

    async def forget(self, broker: Broker) -> None:
        self._authorizers.forget(broker.id)
        self._releases.pop(broker.id, None)
        connection = self._connections.pop(broker.id, None)
        if connection is not None:
            connection.close()

    async def close(self) -> None:
        while self._connections:
            self._connections.popitem()[1].close()

    async def _connection(self, broker: Broker) -> KafkaConnection:
        known = self._connections.get(broker.id)
        context = self._tls.current()
        if known is not None and known.is_open:
            if known.tls in (None, context):
                return known
            # Nothing is under way on it: requests of a broker are sent one after the other.
            known.close()
        opened = await self._open(broker)
        try:
            versions = await self._checked_versions(opened)
            await self._authorizers.ask(broker.id, opened)
        except BaseException:
            opened.close()
            raise
        self._connections[broker.id] = opened
        self._releases[broker.id] = release_of(versions)
        return opened

    @asynccontextmanager
    async def _connection_aside(self, broker: Broker) -> AsyncIterator[KafkaConnection]:
        """Use a connection for which no control request waits."""
        connection = await self._open(broker)
        try:
            await self._checked_versions(connection)
            yield connection
        finally:
            connection.close()

    async def _open(self, broker: Broker) -> KafkaConnection:
        endpoint = self._endpoint(broker)
        return await KafkaConnection.open(
            endpoint,
            client_id=self._client_id,
            timeout_s=self._connect_timeout_s,
            tls=self._tls.current() if endpoint.has_tls else None,
            login=self._login_for(endpoint),
        )

    async def _checked_versions(self, opened: KafkaConnection) -> dict[int, int]:
        """The newest version of each API. Raises PeerRefusesError for a broker that does not understand requests of the
        protocol version; it would close the connection without a word of why.
        """
        answer = await opened.call(ApiVersionsRequest(), _ASKED_VERSION, ApiVersionsResponse, timeout_s=self._timeout_s)
        why = self._messages.versions.not_understood(answer.api_keys)
        versions = {version.api_key: version.max_version for version in answer.api_keys}
        if why is not None:
            release = release_of(versions)
            raise PeerRefusesError(
                opened.address,
                ErrorCode.UNSUPPORTED_VERSION,
                f"it is of Kafka {release} and does not understand {why}: give the controllers the "
                f"inter.broker.protocol.version of the brokers, {release} at most, not {self._protocol}",
            )
        return versions

    def _login_for(self, endpoint: Endpoint) -> ReadCredentials | None:
        if not endpoint.has_sasl:
            return None
        login = self._logins.of(endpoint)
        if login is None:
            raise PeerRefusesError(
                endpoint.address,
                ErrorCode.SASL_AUTHENTICATION_FAILED,
                f"listener {endpoint.listener}: it takes {endpoint.security_protocol} only: give the controllers "
                "sasl.mechanism.inter.broker.protocol and its sasl.jaas.config",
            )
        return login

    def _endpoint(self, broker: Broker) -> Endpoint:
        endpoint = self._listeners.control_endpoint(broker.endpoints)
        if endpoint is None:
            names = self._listeners
            raise PeerUnreachableError(f"broker {broker.id}", f"it has no listener {names.control} or {names.client}")
        return endpoint
