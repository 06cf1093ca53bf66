"""The Kafka listeners of a controller process."""

import asyncio
import socket
import ssl
from collections.abc import Mapping, Sequence
from functools import partial

from cluster.aio.tasks import TaskSet
from cluster.config.kafka_listeners import KafkaListener
from cluster.model.broker import Broker, BrokerId, Endpoint
from cluster.model.errors import StartupError
from cluster.rpc.admission_limits import AdmissionLimits
from controller.adapters.kafka.broker_hosts import BrokerHosts
from controller.adapters.kafka.connection_table import ConnectionBounds, ConnectionTable
from controller.adapters.kafka.served_connection import ClientAddress, ServerLimits
from controller.adapters.kafka.session import KafkaServices, KafkaSession
from controller.adapters.kafka.wire_server import KafkaServer


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
    *,
    tls: Mapping[str, ssl.SSLContext] = {},
) -> KafkaServers:
    """Serve at each listener. Raises StartupError if an address cannot be bound, or an override names an unknown host.

    `tasks`: those of the connections. `tls`: by the names of the listeners that are SSL.
    """
    bounds = _limits(limits)
    overrides = await _by_address(limits.max_connections_per_ip_overrides)
    table = ConnectionTable(ConnectionBounds(limits.max_kafka_connections, limits.max_connections_per_ip, overrides))
    hosts = BrokerHosts(services.brokers.registered, table, tasks)
    servers: list[KafkaServer] = []
    endpoints: list[Endpoint] = []
    try:
        for listener in listeners:
            own_tls = tls[listener.name] if listener.security_protocol == "SSL" else None
            is_authenticated = own_tls is not None and own_tls.verify_mode is ssl.CERT_REQUIRED
            opened = partial(_open, services, listener.name, is_authenticated)
            server = KafkaServer(opened, bounds, tasks, table, on_filling=hosts.look, on_freed=services.memory.freed)
            endpoints.append(listener.endpoint(await server.start(listener.host, listener.port, tls=own_tls)))
            servers.append(server)
    except BaseException:
        for server in servers:
            await server.stop(0)
        raise
    return KafkaServers(servers, endpoints)


def _open(services: KafkaServices, listener: str, is_authenticated: bool, peer: ClientAddress) -> KafkaSession:
    # As gRPC names it in records and metrics.
    family = "ipv6" if ":" in peer.host else "ipv4"
    return KafkaSession(services, listener, f"{family}:{peer}", is_authenticated=is_authenticated)


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


def _limits(limits: AdmissionLimits) -> ServerLimits:
    return ServerLimits(
        request_bytes_max=limits.socket_request_max_bytes,
        memory_bytes_max=limits.queued_max_request_bytes,
        idle_s=limits.connections_max_idle_ms / 1000,
        transfer_s=limits.klamm_request_transfer_timeout_ms / 1000,
        setup_s=limits.socket_connection_setup_timeout_ms / 1000,
    )
