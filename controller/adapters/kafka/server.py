"""The Kafka listeners of a controller process."""

import asyncio
import ssl
from collections.abc import Sequence
from functools import partial

from cluster.broker import Broker, BrokerId, Endpoint
from cluster.kafka_wire.served_connection import Peer, ServerLimits
from cluster.kafka_wire.server import KafkaServer
from cluster.process.kafka_listeners import KafkaListener
from cluster.process.tasks import TaskSet
from cluster.rpc.admission_limits import AdmissionLimits
from controller.adapters.kafka.session import KafkaServices, KafkaSession


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
    tls: ssl.SSLContext | None = None,
) -> KafkaServers:
    """Serve at each listener. Raises StartupError if an address cannot be bound.

    `tasks`: those of the connections. `tls`: for listeners that are SSL.
    """
    bounds = _limits(limits)
    servers: list[KafkaServer] = []
    endpoints: list[Endpoint] = []
    try:
        for listener in listeners:
            own_tls = tls if listener.security_protocol == "SSL" else None
            is_authenticated = own_tls is not None and own_tls.verify_mode is ssl.CERT_REQUIRED
            server = KafkaServer(partial(_open, services, listener.name, is_authenticated), bounds, tasks)
            endpoints.append(listener.endpoint(await server.start(listener.host, listener.port, tls=own_tls)))
            servers.append(server)
    except BaseException:
        for server in servers:
            await server.stop(0)
        raise
    return KafkaServers(servers, endpoints)


def _open(services: KafkaServices, listener: str, is_authenticated: bool, peer: Peer) -> KafkaSession:
    # As gRPC names it in records and metrics.
    family = "ipv6" if ":" in peer.host else "ipv4"
    return KafkaSession(services, listener, f"{family}:{peer}", is_authenticated=is_authenticated)


def _limits(limits: AdmissionLimits) -> ServerLimits:
    return ServerLimits(
        request_bytes_max=limits.socket_request_max_bytes,
        memory_bytes_max=limits.queued_max_request_bytes,
        connections_max=limits.max_other_connections,
        connections_per_ip_max=limits.max_connections_per_ip,
        idle_s=limits.connections_max_idle_ms / 1000,
        transfer_s=limits.klamm_request_transfer_timeout_ms / 1000,
        setup_s=limits.socket_connection_setup_timeout_ms / 1000,
    )
