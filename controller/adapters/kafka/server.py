"""The Kafka listeners of a controller process."""

import asyncio
import socket
import ssl
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Final

import structlog

from cluster.aio.tasks import TaskSet
from cluster.config.connection_overrides import connection_overrides
from cluster.config.kafka_listeners import KafkaListener
from cluster.config.kafka_tls import KafkaTls
from cluster.config.settings import Settings
from cluster.metrics.registry import Metrics
from cluster.model.broker import Broker, BrokerId, Endpoint
from cluster.model.errors import ApiError, ClusterError, ConfigError, ErrorCode, StartupError
from cluster.rpc.admission_limits import AdmissionLimits
from cluster.rpc.callers import CallerIdentifier, IdentifiedCaller
from cluster.tls.names import authenticated_names
from controller.adapters.kafka.authentication import AuthenticatingSession, SaslListener
from controller.adapters.kafka.connection_table import ConnectionBounds, ConnectionTable
from controller.adapters.kafka.handshakes import AT_ONCE, Handshakes
from controller.adapters.kafka.served_connection import ClientAddress, ConnectionHandler, ServerLimits
from controller.adapters.kafka.session import KafkaServices, KafkaSession
from controller.adapters.kafka.wire_server import KafkaServer

_INTERVAL_S: Final = 1.0
_LOOK_UP_S: Final = 5.0
_REMEMBERED_S: Final = 60.0
_log = structlog.stdlib.get_logger()


class KafkaServers:
    """The running servers of a controller. `endpoints`: what brokers and clients are told, with the bound ports."""

    def __init__(self, servers: Sequence[KafkaServer], endpoints: Sequence[Endpoint]) -> None:
        self._servers, self.endpoints = servers, tuple(endpoints)

    def controller(self, id_: int, rack: str | None) -> Broker:
        """The controller as brokers are told of it."""
        return Broker(BrokerId(id_), self.endpoints, rack)

    async def stop(self) -> None:
        """Refuse new connections, let requests in flight finish for a second, then close the others."""
        await asyncio.gather(*(server.stop() for server in self._servers))


async def serve_kafka(
    listeners: Sequence[KafkaListener],
    limits: AdmissionLimits,
    tasks: TaskSet,
    services: KafkaServices,
    metrics: Metrics,
    *,
    tls: KafkaTls | None = None,
    sasl: Mapping[str, SaslListener] = {},
) -> KafkaServers:
    """Serve at each listener. Raises StartupError if an address cannot be bound, or an override names an unknown host.

    `tasks`: those of the connections. `sasl`: by the names of the listeners that have it. `tls`: None if none has.
    """
    bounds, settings = _limits(limits.settings), limits.settings
    overrides = await _by_address(connection_overrides(settings.max_connections_per_ip_overrides))
    table = ConnectionTable(ConnectionBounds(limits.max_kafka_connections, settings.max_connections_per_ip, overrides))
    hosts = BrokerHosts(services.brokers.registered, table, tasks)
    turns = asyncio.Semaphore(AT_ONCE)
    servers: list[KafkaServer] = []
    endpoints: list[Endpoint] = []
    try:
        for listener in listeners:
            own_tls = tls.listening[listener.name] if listener.has_tls and tls is not None else None
            demand = ssl.CERT_NONE if own_tls is None else own_tls.current().verify_mode
            callers = CallerIdentifier(
                is_secured=own_tls is not None, mapping=settings.mapping_of(listener.name), knows_nodes=False
            )
            if listener.has_sasl:
                opened: Callable[[ClientAddress], ConnectionHandler] = partial(
                    _open_with_sasl, services, listener.name, sasl[listener.name]
                )
            else:
                opened = partial(_open, services, listener.name, demand, callers)
            server = KafkaServer(opened, bounds, tasks, table, on_filling=hosts.look, on_freed=services.memory.freed)
            handshakes = None
            if own_tls is not None and tls is not None:
                handshakes = Handshakes(listener.name, own_tls, turns, metrics, tls.refused)
            endpoints.append(listener.endpoint(await server.start(listener.host, listener.port, tls=handshakes)))
            servers.append(server)
    except BaseException:
        for server in servers:
            await server.stop(0)
        raise
    return KafkaServers(servers, endpoints)


def _open(
    services: KafkaServices, listener: str, demand: ssl.VerifyMode, callers: CallerIdentifier, peer: ClientAddress
) -> KafkaSession:
    """Open the session of a client. `demand`: whether certificates are asked for, and demanded. Raises ApiError for a
    certificate that is no identity.
    """
    name = _name_of(peer)
    try:
        shown = {} if peer.certificate is None else authenticated_names(peer.certificate)
    except ConfigError as error:
        raise ApiError(ErrorCode.SASL_AUTHENTICATION_FAILED, "; ".join(error.errors)) from error
    caller = callers.identify(name, shown, {})
    is_authenticated, was_asked = demand is ssl.CERT_REQUIRED, demand is not ssl.CERT_NONE
    return KafkaSession(services, listener, name, caller, is_authenticated=is_authenticated, was_asked=was_asked)


def _open_with_sasl(
    services: KafkaServices, listener: str, sasl: SaslListener, peer: ClientAddress
) -> AuthenticatingSession:
    """Open the session of a client that is to authenticate. A certificate that it shows besides says nothing, as with
    Kafka.
    """
    name = _name_of(peer)

    def opened(caller: IdentifiedCaller) -> KafkaSession:
        return KafkaSession(services, listener, name, caller, is_authenticated=False, has_sasl=True)

    return AuthenticatingSession(sasl, name, opened)


def _name_of(peer: ClientAddress) -> str:
    """The name of a peer as gRPC has it, for records and metrics."""
    return f"{'ipv6' if ':' in peer.host else 'ipv4'}:{peer}"


async def _by_address(overrides: Mapping[str, int]) -> dict[str, int]:
    """The overrides of the hosts' addresses."""
    loop = asyncio.get_running_loop()
    found: dict[str, int] = {}
    for host, limit in overrides.items():
        try:
            addresses = await loop.getaddrinfo(host, None, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as error:
            raise StartupError(
                f"max.connections.per.ip.overrides: {host} has no address: {error}; name a host that has one"
            ) from error
        found |= {str(entry[4][0]): limit for entry in addresses}
    return found


def _limits(settings: Settings) -> ServerLimits:
    return ServerLimits(
        request_bytes_max=settings.socket_request_max_bytes,
        memory_bytes_max=settings.queued_max_request_bytes,
        idle_s=settings.connections_max_idle_ms / 1000,
        transfer_s=settings.klamm_request_transfer_timeout_ms / 1000,
        setup_s=settings.socket_connection_setup_timeout_ms / 1000,
        age_s=settings.klamm_tls_connection_max_age_ms / 1000,
    )


class BrokerHosts:
    """Tells the table of connections which addresses are those of brokers, when it asks: they have a reserve there.

    `registered` reads the registrations; it may raise ClusterError.
    """

    def __init__(
        self, registered: Callable[[], Awaitable[Collection[Broker]]], table: ConnectionTable, tasks: TaskSet
    ) -> None:
        self._registered, self._table, self._tasks = registered, table, tasks
        self._looking: asyncio.Task[None] | None = None
        self._looked_at: float | None = None
        self._addresses: dict[str, tuple[frozenset[str], float]] = {}
        """Host name -> its addresses, and when they were looked up."""

    def look(self) -> None:
        """Look soon, and at most once a second."""
        now = asyncio.get_running_loop().time()
        if self._looking is not None or (self._looked_at is not None and now - self._looked_at < _INTERVAL_S):
            return
        self._looking = self._tasks.start(self._look(), name="hosts of brokers")

    async def _look(self) -> None:
        try:
            brokers = await self._registered()
            hosts = {endpoint.host for broker in brokers for endpoint in broker.endpoints}
            found = await asyncio.gather(*map(self._addresses_of, hosts))
            self._table.expect_brokers_at(frozenset().union(*found))
        except ClusterError as error:
            _log.warning("The hosts of brokers are not known", why=str(error))
        finally:
            self._looked_at, self._looking = asyncio.get_running_loop().time(), None

    async def _addresses_of(self, host: str) -> frozenset[str]:
        loop = asyncio.get_running_loop()
        known, looked_up_at = self._addresses.get(host, (frozenset[str](), -_REMEMBERED_S))
        if loop.time() - looked_up_at < _REMEMBERED_S:
            return known
        try:
            async with asyncio.timeout(_LOOK_UP_S):
                known = frozenset(
                    str(entry[4][0]) for entry in await loop.getaddrinfo(host, None, type=socket.SOCK_STREAM)
                )
        except (TimeoutError, OSError, UnicodeError):
            # What was known of it may still be so; a name that nobody knows is not asked for all the time.
            _log.debug("The host of a broker has no address", host=host)
        self._addresses[host] = known, loop.time()
        return known
