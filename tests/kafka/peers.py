"""Peers that speak Kafka's protocol over real sockets: brokers that answer as told, and a controller's listeners."""

import ssl
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager
from random import Random
from typing import Any

from cluster.aio.tasks import TaskSet
from cluster.config.broker_logins import BrokerLogins
from cluster.config.kafka_listeners import KafkaListener
from cluster.config.kafka_tls import KafkaTls
from cluster.config.scram_users import ScramUsers
from cluster.config.settings import Settings
from cluster.kafka_wire.apis import api
from cluster.kafka_wire.codec import decode
from cluster.kafka_wire.connection import KafkaConnection
from cluster.kafka_wire.headers import RequestHeader, decode_request_header, encode_response
from cluster.kafka_wire.message import Message
from cluster.kafka_wire.messages.acls import DescribeAclsResponse
from cluster.kafka_wire.messages.api_keys import ApiKey
from cluster.kafka_wire.messages.connections import ApiVersion, ApiVersionsResponse
from cluster.metrics.registry import Metrics
from cluster.metrics.requests import RequestMetrics
from cluster.model.broker import Broker, BrokerId, ControllerId, Endpoint
from cluster.model.errors import ErrorCode
from cluster.requests.context import RequestHandler
from cluster.rpc.admission import Admission
from cluster.rpc.admission_limits import AdmissionLimits
from cluster.rpc.authentication import Authentication
from cluster.rpc.rights import guarded
from cluster.sasl.listeners import ListenerSasl, ScramDirectory
from cluster.security.acls import Authorizer
from cluster.security.authorization import FixedRules
from cluster.tls.live import LiveContexts, LiveMaterial
from cluster.tls.settings import TlsSettings
from controller.adapters.kafka.authentication import SaslListener, announcing
from controller.adapters.kafka.authorizers import Authorizers
from controller.adapters.kafka.broker_principals import BrokerPrincipals
from controller.adapters.kafka.broker_versions import BrokerVersions
from controller.adapters.kafka.client_certificates import ClientCertificates
from controller.adapters.kafka.config_apis import config_apis
from controller.adapters.kafka.connection_table import ConnectionBounds, ConnectionTable
from controller.adapters.kafka.live_brokers import LiveBrokers
from controller.adapters.kafka.local_answers import LocalAnswers
from controller.adapters.kafka.served_connection import ClientAddress, ServerLimits
from controller.adapters.kafka.server import KafkaServers, serve_kafka
from controller.adapters.kafka.session import OF_ACTIVE_CONTROLLER, KafkaServices, LongRequests
from controller.adapters.kafka.wire_server import KafkaServer
from controller.freed_memory import FreedMemory

CONTROLLER = ControllerId(1001)
TIMEOUT_S = 20.0
LIMITS = ServerLimits(
    request_bytes_max=1_000_000,
    memory_bytes_max=10_000_000,
    idle_s=60,
    transfer_s=10,
    setup_s=10,
    age_s=3600,
)
Answer = Callable[[Any], Message]


def places(in_all: int = 100) -> ConnectionTable:
    """Of a listener."""
    return ConnectionTable(ConnectionBounds(in_all, in_all))


def without_stores() -> LiveContexts:
    """TLS that trusts what this machine trusts, and shows no certificate."""
    return LiveContexts(LiveMaterial(TlsSettings()), lambda _: ssl.create_default_context())


class KafkaPeer:
    """A broker: `answers` has a function for each request type. `asked`: the header and message of each request.

    `versions`: of its APIs, where they are not the newest.
    """

    def __init__(self, answers: dict[ApiKey, Answer], versions: dict[ApiKey, int] | None = None) -> None:
        self.answers = {
            ApiKey.API_VERSIONS: lambda _: self._versions(),
            ApiKey.DESCRIBE_ACLS: lambda _: DescribeAclsResponse(error_code=ErrorCode.SECURITY_DISABLED),
            **answers,
        }
        self.versions = versions or {}
        self.asked: list[tuple[RequestHeader, Any]] = []
        self.frames: list[tuple[bytes, bytes]] = []
        self.connections = 0
        self.closed = 0

    is_unproven = False

    def open(self, _: ClientAddress) -> "KafkaPeer":
        self.connections += 1
        return self

    async def handle(self, frame: bytes) -> bytes | None:
        header, start = decode_request_header(frame)
        called = api(header.api_key)
        message = decode(called.request_type, header.api_version, frame, start)
        self.asked.append((header, message))
        answer = self.answers[header.api_key](message)
        response = encode_response(answer, header.api_version, header.correlation_id)
        self.frames.append((frame, response))
        return response

    def close(self) -> None:
        self.closed += 1

    def of(self, key: ApiKey) -> list[Any]:
        """The requests of this API."""
        return [message for header, message in self.asked if header.api_key is key]

    def _versions(self) -> ApiVersionsResponse:
        ranges = {key: (api(key).oldest_version, api(key).latest_version) for key in ApiKey}
        return ApiVersionsResponse(
            api_keys=tuple(
                ApiVersion(api_key=key, min_version=oldest, max_version=self.versions.get(key, latest))
                for key, (oldest, latest) in ranges.items()
            )
        )


@asynccontextmanager
async def kafka_broker(peer: KafkaPeer, broker: int = 1) -> AsyncIterator[Broker]:
    """Serve it at a free port; yields its registration."""
    async with TaskSet() as tasks:
        server = KafkaServer(peer.open, LIMITS, tasks, places())
        port = await server.start("127.0.0.1", 0)
        try:
            yield Broker(BrokerId(broker), (Endpoint("127.0.0.1", port),))
        finally:
            await server.stop(0)


@asynccontextmanager
async def kafka_listener(
    handler: RequestHandler,
    brokers: Collection[Broker] = (),
    tls: KafkaTls | None = None,
    authorizers: Authorizers | None = None,
    *,
    sasl: ListenerSasl | None = None,
    users: ScramDirectory | None = None,
    failure_delay_ms: int = 0,
    authorizer: Authorizer | None = None,
    refuses_clients: bool = False,
    **settings: Any,
) -> AsyncIterator[KafkaServers]:
    """The listener PLAINTEXT of a controller, in front of this handler, with these live brokers. `tls`: it is SSL.
    `sasl`: it is SASL_PLAINTEXT or SASL_SSL, for these `users`. `authorizer`: by which it judges, and so does the
    handler. `settings`: of the controller.
    """
    metrics, own = Metrics(), Settings(**settings)
    admission = Admission(AdmissionLimits.from_settings(own, has_kafka=True), metrics)

    async def registered() -> Collection[Broker]:
        return brokers

    nobody = without_stores()
    live = LiveBrokers(
        registered, Random(1), "klamm-1001", (), tls or KafkaTls(nobody, nobody, {}), logins=BrokerLogins(own)
    )
    local = LocalAnswers([conversion.key for conversion in OF_ACTIVE_CONTROLLER], "/data")
    conversions = {c.key: c for c in (*OF_ACTIVE_CONTROLLER, *config_apis(CONTROLLER))}
    known, threads = authorizers or Authorizers(), LongRequests()
    rules = None if authorizer is None else FixedRules(authorizer)
    services = KafkaServices(
        guarded(handler, rules, metrics),
        admission,
        RequestMetrics(metrics),
        live,
        local,
        conversions,
        known,
        ClientCertificates(live, own.listener_names),
        threads,
        FreedMemory(),
        BrokerPrincipals(own, lambda: "" if tls is None else tls.to_brokers.own_subject),
        rules,
        refuses_clients,
        own.listener_names,
    )
    protocol = "PLAINTEXT" if tls is None else "SSL"
    with_sasl = {}
    if sasl is not None:
        protocol = "SASL_PLAINTEXT" if tls is None else "SASL_SSL"
        authentication = Authentication({}, users or ScramUsers(), metrics, failure_delay_ms=failure_delay_ms)
        keys = [conversion.key for conversion in OF_ACTIVE_CONTROLLER]
        mechanisms, versions = authentication.mechanisms_of(sasl), announcing(keys, BrokerVersions(live), "PLAINTEXT")
        with_sasl["PLAINTEXT"] = SaslListener("PLAINTEXT", mechanisms, authentication.steps, versions)
    endpoint = Endpoint("127.0.0.1", 0, "PLAINTEXT", protocol)
    listener = KafkaListener("PLAINTEXT", "127.0.0.1", 0, protocol, endpoint)
    async with TaskSet() as tasks:
        servers = await serve_kafka(
            [listener],
            admission.limits,
            tasks,
            services,
            metrics,
            tls=tls,
            sasl=with_sasl,
        )
        try:
            yield servers
        finally:
            await servers.stop()
            threads.close()


@asynccontextmanager
async def connected(servers: KafkaServers) -> AsyncIterator[KafkaConnection]:
    """A client of the listener."""
    connection = await KafkaConnection.open(servers.endpoints[0], client_id="client", timeout_s=TIMEOUT_S)
    try:
        yield connection
    finally:
        connection.close()
